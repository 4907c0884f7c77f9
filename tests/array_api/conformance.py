"""Run the array-api-tests suite on Weft and count: see the README beside this file."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

# Nothing is small enough to be interpreted.
COMPILED = "exec('import weft; weft.config(interpret_below=0); xp = weft')"
COMPILED_FILES = (
    "array_api_tests/test_operators_and_elementwise_functions.py",
    "array_api_tests/test_statistical_functions.py",
    "array_api_tests/test_utility_functions.py",
    "array_api_tests/test_manipulation_functions.py",
)


def main() -> int:
    """Run the suite; the exit status is pytest's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path, help="a checkout of array-api-tests")
    parser.add_argument("--compiled", action="store_true", help="a third, with nothing interpreted")
    parser.add_argument("--max-examples", type=int, help="20; 5 compiled")
    parser.add_argument("--jobs", default="2")
    ours, _, rest = "\0".join(sys.argv[1:]).partition("\0--\0")
    given = parser.parse_args(ours.split("\0"), argparse.Namespace(rest=rest.split("\0")))
    given.max_examples = given.max_examples or (5 if given.compiled else 20)
    if not (given.suite / "array-api" / "src").is_dir():
        parser.error(f"{given.suite} is no checkout of array-api-tests with its submodule")
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        start = time.monotonic()
        status = subprocess.call(command(given, report), cwd=given.suite, env=environment(given))
        seconds = time.monotonic() - start
        if report.exists():
            summarise(json.loads(report.read_text()), seconds)
    return status


def command(given: argparse.Namespace, report: Path) -> list[str]:
    """How pytest is called."""
    named = any(argument.startswith("array_api_tests") for argument in given.rest)
    files = () if named else COMPILED_FILES if given.compiled else ("array_api_tests",)
    plugins = ["-p", "every_third"] if given.compiled else []
    return [
        sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "--disable-warnings",
        "--rootdir", ".", "-p", "no:cacheprovider",
        "-n", given.jobs, "--dist", "worksteal", *plugins,
        "--max-examples", str(given.max_examples), "--disable-deadline", "--derandomize",
        # In one word: pytest takes what follows an option for a path, and loads our fixtures.
        f"--skips-file={HERE / 'skips.txt'}", f"--xfails-file={HERE / 'xfails.txt'}",
        "--json-report", "--json-report-file", str(report), *files, *filter(None, given.rest),
    ]  # fmt: skip


def environment(given: argparse.Namespace) -> dict[str, str]:
    """The module under test, and where the plugin is found."""
    module = COMPILED if given.compiled else "weft"
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "ARRAY_API_TESTS_MODULE": module, "PYTHONPATH": path}


def summarise(report: dict[str, Any], seconds: float) -> None:
    """Print what failed, file by file with the first line of the reason, and the counts."""
    failed = defaultdict(list)
    for test in report["tests"]:
        if test["outcome"] in ("failed", "error"):
            file, _, name = test["nodeid"].partition("::")
            failed[file].append((name, reason(test)))
    for file, tests in sorted(failed.items()):
        print(f"\n{file}")
        for name, why in sorted(tests):
            print(f"  {name}: {why}")
    counts = Counter(test["outcome"] for test in report["tests"])
    line = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    print(f"\n{len(report['tests'])} tests in {seconds:.0f} s: {line}")


def reason(test: dict[str, Any]) -> str:
    """The first line of the error of a test."""
    for stage in ("call", "setup", "teardown"):
        message = test.get(stage, {}).get("crash", {}).get("message")
        if message:
            return str(message).splitlines()[0][:160]
    return "no message"


if __name__ == "__main__":
    raise SystemExit(main())

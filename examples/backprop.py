"""A network with one hidden layer learns one example: Backprop of the Rodinia benchmarks."""

import numpy as np

import weft as wf

RATE = 0.3
TARGET = 0.1


def sigmoid(x):
    return 1 / (1 + wf.exp(-x))


def with_bias(x):
    """A one before the values: the unit that is always on."""
    return wf.concat([wf.ones(1, dtype=x.dtype), x])


@wf.jit
def train(x, into_hidden, into_output):
    """The weights after one step towards the target.

    Inputs x [n], weights [n + 1, hidden] and [hidden + 1]; gives both weights anew, and the
    output that the old ones gave.
    """
    x = with_bias(x)
    hidden = with_bias(sigmoid(x @ into_hidden))
    output = sigmoid(hidden @ into_output)
    error = output * (1 - output) * (TARGET - output)
    hidden_error = hidden * (1 - hidden) * error * into_output
    into_output = into_output + RATE * error * hidden
    into_hidden = into_hidden + RATE * x[:, None] * hidden_error[None, 1:]
    return into_hidden, into_output, output


def main(inputs: int = 64, hidden: int = 16, steps: int = 200) -> list[float]:
    """The output while the network learns."""
    random = np.random.default_rng(7)
    x = random.random(inputs, np.float32)
    into_hidden = random.uniform(-0.1, 0.1, (inputs + 1, hidden)).astype(np.float32)
    into_output = random.uniform(0, 0.5, hidden + 1).astype(np.float32)
    outputs = []
    for _ in range(steps):
        into_hidden, into_output, output = train(x, into_hidden, into_output)
        outputs.append(float(output))
    return outputs


if __name__ == "__main__":
    for step, output in list(enumerate(main()))[::20]:
        print(f"{step:4} {output:.3f} {'#' * int(60 * output)}")

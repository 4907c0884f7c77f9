"""The functional IR: nodes, builder, walk, check, show, parse, interpreter."""

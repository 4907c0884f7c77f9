"""One module a device."""

"""The zoo: change one thing about a transformer block and learn honestly whether it helps."""

# What a plugin is written against. The second number grows when something is added, the first when something may break.
API_VERSION = (1, 2)


def __getattr__(name: str) -> str:
    # Looked up when asked for: importlib.metadata would cost every `--help` some milliseconds.
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("transformer-zoo")
        except PackageNotFoundError:
            return "0+unknown"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

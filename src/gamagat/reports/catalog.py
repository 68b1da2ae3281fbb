"""What there is, with one line each and its parameters."""

from collections.abc import Iterator, Mapping

from rich.markup import escape

from gamagat.engine.catalog import Item


def catalog_lines(shelves: Mapping[str, list[Item]]) -> Iterator[str]:
    """Lines with rich's markup."""
    for shelf, items in shelves.items():
        yield f"[bold]{shelf}[/]"
        for item in items:
            yield f"  [cyan]{item.name}[/]  {escape(item.summary)}"
            if item.options:
                yield f"      [dim]{escape(_words(item.options))}[/]"
            for preset, options in item.presets.items():
                yield f"      [dim]on {preset}: {escape(_words(options))}[/]"


def _words(options: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in options.items())

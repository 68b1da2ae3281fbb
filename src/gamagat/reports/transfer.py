"""A transfer as a table: attacks down, networks across."""

from collections.abc import Mapping

from rich.markup import escape
from rich.table import Table

from gamagat.engine.share import Share
from gamagat.engine.transfer import Transfer


def transfer_table(result: Transfer) -> Table:
    """The accuracy of each network on the images that each attack made on the source."""
    title = f"images made on {result.source} of {result.data}, {result.norm} {result.eps:.6g}; accuracy %"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("attack", overflow="fold", min_width=10)
    for name in result.clean:
        table.add_column(escape(name), justify="right", overflow="fold")
    table.add_row("clean", *_cells(result.clean))
    for name, left in result.attacks.items():
        table.add_row(escape(name), *_cells(left))
    return table


def _cells(shares: Mapping[str, Share]) -> list[str]:
    return [f"{share.percent:.2f}" for share in shares.values()]

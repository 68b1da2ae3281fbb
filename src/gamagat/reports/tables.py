"""An evaluation as a table in the terminal."""

from rich.markup import escape
from rich.table import Table

from gamagat.engine.results import Evaluation, Share


def evaluation_table(result: Evaluation) -> Table:
    """Clean accuracy, each attack, and the worst case over all of them, image by image."""
    table = Table(
        title=escape(f"{result.model} on {result.data}, {result.norm} {result.eps:.6g}"), title_justify="left"
    )
    table.add_column("attack", overflow="fold", min_width=10)
    for heading in ("accuracy %", "95 % interval"):
        table.add_column(heading, justify="right", min_width=6)
    for heading in ("forwards", "backwards", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("clean", *_accuracy(result.clean), "", "", "")
    for attack in result.attacks:
        costs = (f"{attack.forwards:.1f}", f"{attack.backwards:.1f}", f"{attack.seconds:.1f}")
        table.add_row(escape(attack.name), *_accuracy(attack.standing), *costs)
    if result.unfinished:
        table.caption = (
            f"unfinished: {result.standing.of} of {result.n} images are through with every run shown"
        )
        table.caption_justify = "left"
    table.add_section()
    table.add_row("worst case", *_accuracy(result.standing), "", "", f"{result.seconds:.1f}", style="bold")
    return table


def curve_lines(result: Evaluation) -> list[str]:
    """Accuracy after each run, for the attacks that made more than one."""
    return [
        f"{attack.name} after each run: " + " ".join(f"{accuracy:.2f}" for accuracy in attack.curve)
        for attack in result.attacks
        if len(attack.curve) > 1
    ]


def _accuracy(share: Share) -> tuple[str, str]:
    if share.of == 0:
        return "-", "-"
    low, high = share.ci95
    return f"{share.percent:.2f}", f"{low:.2f} - {high:.2f}"

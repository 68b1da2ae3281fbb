"""An evaluation as a table in the terminal."""

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from gamagat.engine.distances import BOUND
from gamagat.engine.results import AttackResult, Evaluation, Member
from gamagat.engine.share import Share
from gamagat.reports.unfinished import so_far, unfinished_words


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
        table.add_row(
            escape(attack.name) + so_far(attack.standing, result.n), *_accuracy(attack.standing), *costs
        )
        for member in attack.members:
            table.add_row(*_member_row(member), style="dim")
    if result.unfinished:
        table.caption = escape(f"unfinished: {unfinished_words(result)}")
        table.caption_justify = "left"
    table.add_section()
    worst = f"worst case{so_far(result.standing, result.n)}"
    table.add_row(worst, *_accuracy(result.standing), "", "", f"{result.seconds:.1f}", style="bold")
    return table


def _member_row(member: Member) -> tuple[str, ...]:
    """What one attack of a suite broke, and what was left after it."""
    costs = (f"{member.forwards:.1f}", f"{member.backwards:.1f}", f"{member.seconds:.1f}")
    return f"  {escape(member.name)}", f"{member.standing.percent:.2f}", f"{member.fooled} fooled", *costs


def curve_lines(result: Evaluation) -> list[str]:
    """Accuracy after each run, of attacks that made several; distances, of those that look for them."""
    runs = [
        f"{attack.name} after each run: " + " ".join(f"{accuracy:.2f}" for accuracy in attack.curve)
        for attack in result.attacks
        if len(attack.curve) > 1 and not attack.members
    ]
    return runs + [line for attack in result.attacks if attack.nearest for line in _distances(attack)]


def _distances(attack: AttackResult) -> Iterator[str]:
    nearest = attack.nearest
    if nearest is None or nearest.mean is None:
        yield f"{attack.name} found no adversarial image at any distance"
        return
    found = f"{len(nearest.found):,} of {int((nearest.sizes > 0).sum()):,} images"
    yield f"{attack.name} nearest: mean {nearest.mean:.4g}, median {nearest.median:.4g} ({found})"
    steps = ", ".join(f"{eps:.4g}: {share.percent:.2f}" for eps, share in nearest.curve())
    yield f"{attack.name} accuracy at eps {steps}" + (f" ({BOUND})" if len(attack.curve) > 1 else "")


def _accuracy(share: Share) -> tuple[str, str]:
    if share.of == 0:
        return "-", "-"
    low, high = share.ci95
    return f"{share.percent:.2f}", f"{low:.2f} to {high:.2f}"

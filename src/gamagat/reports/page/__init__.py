"""One self-contained page about one run or several, and the same numbers as Markdown and CSV."""

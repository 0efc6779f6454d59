"""The table of settings in the README, made from the settings themselves.

``python -m tests.docs.settings_table`` writes it anew.
"""

from pathlib import Path

from agentsched.settings import Settings

README = Path(__file__).parents[2] / "README.md"
MARK = "<!-- settings -->\n"


def table() -> str:
    """One row a setting, in the order of the code."""
    rows = ["| variable | default | what it is |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{field.default}`"
        rows.append(f"| `AGENTSCHED_{name.upper()}` | {default} | {field.description} |")
    return "\n".join(rows) + "\n"


def with_table(readme: str) -> str:
    """The README with the table as it ought to be."""
    head, rest = readme.split(MARK)
    return head + MARK + "\n" + table() + "\n" + rest[rest.index("\n## ") + 1 :]


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")

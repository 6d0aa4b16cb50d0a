from pathlib import Path

from infra.contract.tables import with_tables

README = Path(__file__).parents[3] / "README.md"


def test_the_readmes_tables_are_the_contracts() -> None:
    text = README.read_text()
    assert with_tables(text) == text
    assert "`speed_kmh`" in text
    assert "| `telemetry` | vehicle |" in text

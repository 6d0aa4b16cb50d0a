from tests.contract_tables import README, with_tables


def test_the_readmes_tables_are_the_contracts() -> None:
    text = README.read_text()
    assert with_tables(text) == text
    assert "`<root>/s/<slot>/<vehicle>/crash`" in text
    assert "| `telemetry` | vehicle |" in text
    assert "`speed_kmh`" in text

"""How the pages look in light and dark: no style sheet and no font from elsewhere."""

from __future__ import annotations

from typing import Any, Final

from dashboard.palette import SERIES

COMMON: Final[dict[str, Any]] = {
    "baseFontSize": 15,
    "baseRadius": "8px",
    "headingFontSizes": ["1.55rem", "1.2rem", "1rem"],
    "headingFontWeights": [650, 600, 600],
    "metricValueFontSize": "1.3rem",
    "metricValueFontWeight": 600,
    "paddingTop": "2.6rem",
    "paddingBottom": "2rem",
    "showWidgetBorder": True,
    "chartCategoricalColors": list(SERIES),
}
LIGHT: Final[dict[str, Any]] = {
    "primaryColor": "#1a7fd0",
    "backgroundColor": "#ffffff",
    "secondaryBackgroundColor": "#f3f5f7",
    "textColor": "#1d2733",
    "borderColor": "#dfe4ea",
    "sidebar.backgroundColor": "#f6f8fa",
}
DARK: Final[dict[str, Any]] = {
    "primaryColor": "#4aa3ea",
    "backgroundColor": "#0e131a",
    "secondaryBackgroundColor": "#18202a",
    "textColor": "#dbe3ec",
    "borderColor": "#2a3441",
    "sidebar.backgroundColor": "#121922",
}

STYLE: Final = """<style>
.stMainBlockContainer { padding-left: 2.2rem; padding-right: 2.2rem; }
@media (max-width: 640px) {
  .stMainBlockContainer { padding-left: 0.9rem; padding-right: 0.9rem; }
  .st-key-toolbar { row-gap: 0.4rem !important; }
  :has(> .st-key-words), .st-key-words { min-width: 15rem; }
  [class*="st-key-figures"] [data-testid="stMetricValue"] { font-size: 1.1rem; line-height: 1.25; }
  [class*="st-key-figures"] :is([data-testid="stMetricValue"], [data-testid="stMetricLabel"]) * {
    white-space: normal;
  }
  .stElementContainer:has([data-testid="stDataFrame"]) { margin-top: 1.7rem; }
}
[class*="st-key-figures"] {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(108px, 1fr)); gap: 0.6rem;
}
.st-key-figures_quality { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); }
[class*="st-key-figures"] > div { width: 100% !important; }
[class*="st-key-figures"] [data-testid="stMetric"] { width: 100% !important; padding: 0; }
[class*="st-key-figures"] [data-testid="stMetric"] > div { padding: 0.5rem 0.7rem 0.35rem; }
[class*="st-key-figures"] [data-testid="stVerticalBlock"] { padding: 0.45rem 0.7rem 0.4rem; }
[class*="st-key-figures"] [data-testid="stVerticalBlock"] [data-testid="stMetric"] > div { padding: 0; }
[data-stale="true"] { opacity: 1 !important; }
</style>"""
"""What the options cannot say: margins, the grid of figures, no fading while a part is updated."""


def options() -> dict[str, Any]:
    """The options by Streamlit's names."""
    return (
        {f"theme.{key}": value for key, value in COMMON.items()}
        | {f"theme.light.{key}": value for key, value in LIGHT.items()}
        | {f"theme.dark.{key}": value for key, value in DARK.items()}
    )

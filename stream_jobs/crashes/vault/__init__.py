"""The vault of crash records: are they whole, who did what with them, and how they leave as evidence."""

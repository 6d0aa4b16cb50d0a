"""A vehicle compared with its peers at similar load and temperature."""

"""Which features and which participants are worth having, without showing the data."""

"""What several tests share: small tables, federations, jobs and runs."""

"""The ways to choose what grows: one file each."""

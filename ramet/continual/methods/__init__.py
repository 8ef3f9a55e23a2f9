"""The methods that learn a stream: one file each, a folder for those of several files."""

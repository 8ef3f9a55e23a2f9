"""Thompson sampling over what each task gains by its layers."""

"""What tasks are learned on: chains of layers, graphs of their copies, and a master network under masks."""

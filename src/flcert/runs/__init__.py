"""What a run is: its configuration, the files of its directory, and the models in it."""

"""What everything else stands on: settings, plug-ins, digests, random streams, files and the store."""

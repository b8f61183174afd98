"""The foundations: settings, plug-ins, digests, random streams, files and the store."""

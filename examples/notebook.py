"""The Python API, step by step."""

import flcert

federation = flcert.datasets.load("digits", num_clients=100)
groups = flcert.grouping.balanced(federation.ids, num_groups=20)
ensemble = flcert.training.train(federation, groups, flcert.Recipe(rounds=10))
votes = ensemble.votes(federation.test_inputs)
counts = flcert.voting.count(votes, federation.num_labels)
certificate = flcert.certify.disjoint(counts, num_failed=len(ensemble.failures))
curve = flcert.certify.certified_accuracy(certificate, federation.test_labels)
for m, accuracy in enumerate(curve):
    print(f"certified accuracy against {m} malicious clients: {accuracy:.1%}")

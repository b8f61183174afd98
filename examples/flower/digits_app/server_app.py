"""The ServerApp: in place of ``strategy.start(grid=...)``, flcert gets the grid and trains the groups."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp, strategy

from digits_app.task import federation, recipe
from flcert import flower, grouping

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train the groups, vote, certify, and write the run directory."""
    settings, timeout = context.run_config, float(context.run_config["timeout"])
    users = {"name": flower.by_name(), "public-key": flower.by_public_key, "query": flower.by_query(timeout=timeout)}
    data = federation(int(settings["num-clients"]))
    number, chosen = int(settings["num-groups"]), str(settings["strategy"])
    groups = {
        "hashed": number,
        "sampled": grouping.Sampled(num_groups=number, group_size=int(settings["group-size"])),
    }
    result = flower.train(
        grid,
        flower.Clients(int(settings["num-clients"]), users[str(settings["users"])]),
        groups=groups[str(settings["grouping"])],
        test=flower.TestSet(data.test_inputs, data.test_labels, data.num_labels, "digits", data.image_shape),
        directory=str(settings["directory"]),
        learning=flower.Learning(recipe(settings), None if chosen == "flcert" else getattr(strategy, chosen)),
        options=flower.Options(timing=flower.Timing(wait=timeout, timeout=timeout)),
    )
    print(f"certified accuracy {result.summary.certified_accuracy}; see {result.directory}/report.html")

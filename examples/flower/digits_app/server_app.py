"""The ServerApp: in place of ``strategy.start(grid=...)``, flcert gets the grid and trains the groups."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp, strategy

from digits_app.task import federation, recipe
from flcert import flower
from flcert.config import Hashed, Sampled

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train the groups, vote, certify, and write the run directory."""
    settings, timeout = context.run_config, float(context.run_config["timeout"])
    users = {"name": flower.by_name(), "public-key": flower.by_public_key, "query": flower.by_query(timeout=timeout)}
    data = federation(int(settings["num-clients"]))
    number, chosen = int(settings["num-groups"]), str(settings["strategy"])
    result = flower.train(
        grid,
        groups=Hashed(num_groups=number)
        if settings["grouping"] == "hashed"
        else Sampled(kind="sampled", num_groups=number, group_size=int(settings["group-size"])),
        clients=int(settings["num-clients"]),
        users=users[str(settings["users"])],
        strategy=None if chosen == "flcert" else getattr(strategy, chosen),
        recipe=recipe(settings),
        test=(data.test_inputs, data.test_labels),
        num_labels=data.num_labels,
        image_shape=data.image_shape,
        name="digits",
        directory=str(settings["directory"]),
        wait=timeout,
        timeout=timeout,
    )
    print(f"certified accuracy {result.summary['certified_accuracy']}; see {result.directory}/report.html")

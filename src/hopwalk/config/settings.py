"""Every setting of hopwalk, declared once: name, type, default, bounds and description.

`hopwalk settings`, docs/settings.md and the file in every run folder are made from these declarations. How presets, recipes and
the command line fill them is in `config/loading.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hopwalk.errors import SettingsError, did_you_mean

Format = Literal["auto", "table", "triples", "openke", "minerva", "parquet", "rdf"]
ScorerRecipe = Literal["modern", "paper"]
WalkerRecipe = Literal["modern", "paper", "minerva"]
SCORER_RECIPES: tuple[str, ...] = get_args(ScorerRecipe)
WALKER_RECIPES: tuple[str, ...] = get_args(WalkerRecipe)


MOST_IDS = 2**31 - 1  # entities, facts and edges: their ids have 32 bits
MOST_SEED = 2**63 - 1
MOST_EPOCHS = 1_000_000
MOST_DIMENSIONS = 10_000
MOST_BATCH = 1_000_000


def _integer(default: int, description: str, *, least: int = 0, most: int) -> Any:
    return Field(default, ge=least, le=most, description=description)


def _number(default: float, description: str, *, least: float = 0.0, most: float, above: float | None = None) -> Any:
    return Field(default, ge=None if above is not None else least, gt=above, le=most, description=description)


def _share(default: float, description: str) -> Any:
    return Field(default, ge=0, lt=1, description=description)


def _choice(default: Any, description: str) -> Any:
    return Field(default, description=description)


def _text(default: str, description: str, *, most: int) -> Any:
    """A setting of at most so many characters."""
    return Field(default, max_length=most, description=description)


class Group(BaseModel):
    """Base of all groups of settings: unknown keys fail, nothing changes after creation."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ReadSettings(Group):
    """how a file of triples is read"""

    format: Format = _choice("auto", "auto (from the path), table, triples (head tail relation), openke, minerva, parquet, rdf")
    separator: str = _text("", 'column separator; "" detects tab, comma, semicolon, bar or space', most=100)
    quote: Literal["auto", "yes", "no"] = _choice("auto", 'may "…" enclose a field? auto: in .csv files only')
    header: Literal["auto", "yes", "no"] = _choice("auto", "is the first line a header? auto: if it names the three columns")
    columns: str = _text(
        "", 'head, relation and tail by position "1,2,3" or by header name "subject,predicate,object"', most=30_000
    )
    labels: str = _text("", "a table of readable names: label, tab, name", most=5_000)
    expanded_mb: int = _integer(
        8_000, "most megabytes that a compressed file, a pipe or a Parquet file may expand to", least=1, most=10_000_000
    )
    expansion: int = _integer(
        100, "most times its size that a compressed file may expand to, if that is more than 64 MB", least=1, most=1_100
    )
    query: str = _text("", "of a database or a SPARQL endpoint: the query whose result is head, relation and tail", most=20_000)
    timeout: int = _integer(
        60, "seconds to wait for a database (a connection, a lock) or for an answer of a SPARQL endpoint", least=1, most=86_400
    )
    page: int = _integer(10_000, "rows that a SPARQL endpoint is asked for at once", least=1, most=1_000_000)
    endpoint_names: bool = _choice(True, "ask a SPARQL endpoint for the rdfs:label of entities and relations")
    fold_inverses: bool = _choice(True, "read `r_inv` and `_r` facts that repeat `r` the other way round as facts of `r`")


class SplitSettings(Group):
    """how a single file is divided"""

    valid: float = _share(0.1, "share of the facts held out for choosing settings (dev)")
    test: float = _share(0.1, "share of the facts held out for the final numbers")
    seed: int = _integer(0, "the same seed gives the same split", most=MOST_SEED)
    hold_out: float = _share(
        0.0, "share of the facts of a single file that training holds out as dev, and has in its graph again when it answers"
    )


class GraphSettings(Group):
    """how facts become the graph to walk"""

    fan_out: int = _integer(
        400, "η: the most out-edges an entity keeps, those to the neighbours of highest PageRank", least=1, most=MOST_IDS
    )


class WalkSettings(Group):
    """how far walks go, and how the best of them are found"""

    hops: int = _integer(3, "T: steps in a walk", least=1, most=8)
    beam: int = _integer(128, "walks of a query kept at each hop, and answers kept at the end", least=1, most=1_000_000)


class WalkerSettings(Group):
    """the policy that walks, and its training"""

    recipe: WalkerRecipe = _choice("modern", "source of every setting below that is not set: modern, paper or minerva")
    dimension: int = _integer(200, "size of the embeddings of entities and relations", least=1, most=MOST_DIMENSIONS)
    history_dimension: int = _integer(200, "size of the LSTM that encodes the path", least=1, most=MOST_DIMENSIONS)
    history_layers: int = _integer(1, "layers of that LSTM", least=1, most=16)
    uses_entities: bool = _choice(True, "false: an action is its relation only, as in MINERVA without entity embeddings")
    pooling: Literal["max", "sum"] = _choice(
        "sum", "score of an answer: sum (its paths in the beam) or max (the best one, as the paper)"
    )
    reward_shaping: bool = _choice(True, "reward entities that are not known answers by the scorer's probability; false: 0")
    estimator: Literal["likelihood", "sum", "sampled"] = _choice(
        "likelihood",
        "of the gradient: likelihood of the answers, sum of the reward over the last hop, or sampled walks (the paper)",
    )
    rollouts: int = _integer(20, "walks of each query in a batch", least=1, most=10_000)
    action_dropout: float = _number(0.5, "α: share of the actions masked when a walk is sampled; 1: all alike", most=1)
    entropy: float = _number(0.0, "β: weight of the policy's entropy", most=100)
    entropy_decay: float = _number(1.0, "factor on β after each epoch, or after `entropy_decay_steps` batches", above=0, most=1)
    entropy_decay_steps: int = _integer(
        0, "batches after which β has fallen by the factor, a little with each; 0: an epoch", most=1_000_000_000
    )
    baseline: Literal["none", "average", "rollouts", "standardised"] = _choice(
        "none",
        "subtracted from rewards: none (the paper), average (of all so far), rollouts (of the same query), standardised (the "
        "mean of the batch, then divided by its deviation)",
    )
    embedding_dropout: float = _share(0.3, "dropout of embeddings")
    hidden_dropout: float = _share(0.1, "dropout of the other layers")
    dropout_masks: Literal["walk", "edge"] = _choice(
        "walk",
        "walk: a mask for all edges of a step, shared by the walks of a query on the same path, dropout between LSTM layers; "
        "edge: as the paper",
    )
    learning_rate: float = _number(0.001, "step size of Adam", above=0, most=100)
    learning_rate_decay: float = _number(1.0, "factor on the step size after each epoch", above=0, most=1)
    gradient_clip: float = _number(0.0, "largest norm of the gradient; 0: no limit", most=1e6)
    batch_size: int = _integer(128, "queries in a batch, each with one answer", least=1, most=MOST_BATCH)
    epochs: int = _integer(40, "passes over all queries, at most", most=MOST_EPOCHS)
    evaluate_every: int = _integer(1, "epochs between two evaluations on dev", least=1, most=MOST_EPOCHS)
    patience: int = _integer(10, "evaluations without a better dev MRR before training stops", least=1, most=MOST_EPOCHS)
    mean_window: int = _integer(
        0, "stop when dev MRR falls below the mean of this many evaluations, as the paper; 0: stop by patience", most=MOST_EPOCHS
    )
    dev_queries: int = _integer(2000, "dev queries ranked during training; 0: all", most=MOST_IDS)
    train_on_valid: bool = _choice(
        False, "train on the dev facts too, for all epochs: for a final test model, as the paper does on NELL-995"
    )
    memory_mb: int = _integer(1024, "memory of a batch; larger batches are computed in parts", least=64, most=10_000_000)
    precision: Literal["float32", "bfloat16"] = _choice(
        "float32", "of the products of training; bfloat16 rounds, and is faster on processors with AVX-512 BF16 or AMX"
    )
    seed: int = _integer(0, "the same seed gives the same result", most=MOST_SEED)


class ScorerSettings(Group):
    """the model f(head, relation, tail): which one; and if it is an embedding model, its training"""

    model: str = _text(
        "propagation", "propagation, neural-lp, drum, ntp, distmult, complex, conve, pykeen:MODEL, or an installed one", most=200
    )
    model_options: str = _text("", 'further arguments of a PyKEEN model, as TOML: "p = 2, relation_dim = 30"', most=10_000)
    recipe: ScorerRecipe = _choice("modern", "source of every setting below that is not set: modern or paper")
    dimension: int = _integer(
        200, "size of an embedding; ComplEx has complex ones, so twice as many numbers", least=1, most=100_000
    )
    initial_scale: float = _number(0.001, "standard deviation of the initial embeddings; 0: Xavier", most=100)
    loss: Literal["softmax", "binary"] = _choice("softmax", "softmax over all tails, or binary cross-entropy of every tail")
    label_smoothing: float = _share(0.1, "of the binary loss: taken from the targets of answers")
    smoothing_sum: float = _number(
        0.0, "sum that label smoothing adds to the targets of a query; 0: as much as label_smoothing; 1: the paper's code", most=1
    )
    n3: float = _number(0.05, "weight of the N3 penalty", most=1000)
    relation_weight: float = _number(
        0.0, "weight of predicting the relation from head and tail, beside predicting the tail", most=1000
    )
    optimizer: Literal["adagrad", "adam"] = _choice("adagrad", "adagrad or adam")
    learning_rate: float = _number(0.1, "step size of the optimizer", above=0, most=100)
    learning_rate_decay: float = _number(1.0, "factor on the step size after each epoch", above=0, most=1)
    gradient_clip: float = _number(0.0, "largest norm of the gradient; 0: no limit", most=1e6)
    batch_size: int = _integer(512, "queries in a batch, each with all its answers", least=1, most=MOST_BATCH)
    num_sampled_tails: int = _integer(
        0, "sampled entities that stand for all that are not answers in the batch; 0: no sampling", most=MOST_IDS
    )
    input_dropout: float = _share(0.0, "dropout of the embeddings of head and relation")
    feature_dropout: float = _share(0.2, "dropout of ConvE's feature maps")
    hidden_dropout: float = _share(0.3, "dropout of ConvE's query vector")
    tail_dropout: float = _share(0.0, "dropout of the embeddings of tails, one mask per batch")
    conve_layers: Literal["original", "released"] = _choice(
        "original",
        "ConvE: original, or released (the paper's: dropout before the first norm and of single features, one norm less)",
    )
    embedding_height: int = _integer(10, "ConvE: rows into which an embedding is reshaped", least=1, most=MOST_DIMENSIONS)
    num_filters: int = _integer(32, "ConvE: filters", least=1, most=MOST_DIMENSIONS)
    kernel_size: int = _integer(3, "ConvE: rows and columns of a filter", least=1, most=1000)
    epochs: int = _integer(100, "passes over all queries, at most", least=1, most=MOST_EPOCHS)
    evaluate_every: int = _integer(1, "epochs between two evaluations on dev", least=1, most=MOST_EPOCHS)
    patience: int = _integer(10, "evaluations without a better dev MRR before training stops", least=1, most=MOST_EPOCHS)
    train_on_valid: bool = _choice(
        False, "train on the dev facts too, for all epochs: for a final test model, as the paper does on NELL-995"
    )
    seed: int = _integer(0, "the same seed gives the same result", most=MOST_SEED)


_HIDING = (
    "edges a training query does not see: of its fact; all between head and answer; of all its known answers; of its fact's "
    "head, by turns in its relation and in all relations that training asks for"
)


class PropagationSettings(Group):
    """all walks at once: the model, and its training"""

    layers: int = _integer(3, "L: steps that messages take from the head", least=1, most=20)
    senders: int = _integer(
        0, "K: nodes of a query that send messages in a layer, those of highest learnt priority; 0: all", most=MOST_IDS
    )
    fan_out: int = _integer(0, "edges along which a node sends in a layer, an even sample if it has more; 0: all", most=MOST_IDS)
    width: int = _integer(32, "size of a node's state; a power of two is fastest", least=4, most=256)
    attention_width: int = _integer(8, "size of the attention's hidden layer", least=4, most=256)
    aggregation: Literal["sum", "mean", "max", "mean-max"] = _choice(
        "sum", "of messages: their sum; the sum and the mean; the sum and the maximum; the sum, the mean and the maximum"
    )
    additive: bool = _choice(False, "add a vector of the relation to each message")
    degrees: bool = _choice(
        False,
        "let attention and states depend on numbers of edges: of a node, and of it with a relation; means are over all edges",
    )
    query_rank: int = _integer(0, "size of the query that messages depend on; 0: the whole query", most=256)
    norm_epsilon: float = _number(
        1.0, "ε of the norm; large, because the magnitude says how many walks arrived", above=0, most=1e6
    )
    counts: bool = _choice(False, "add to the score how often an entity is a tail of the query's relation, and its degree")
    prior: float = _number(
        0.0,
        "share of the probability of entities out of reach that goes to frequent tails of the relation; 0: all are alike",
        most=0.999,
    )
    hiding: Literal["fact", "between", "query", "head"] = _choice("fact", _HIDING)
    queries: int = _integer(20_000, "training queries, both directions together", least=1, most=MOST_IDS)
    batch_size: int = _integer(16, "queries in a batch", least=1, most=MOST_BATCH)
    num_targets: int = _integer(1, "most answers that a query asks for together", least=1, most=MOST_BATCH)
    negative_threshold: float = _number(
        0.002, "gradients of negatives below this are sampled, without bias; 0: all are computed", most=1
    )
    edge_dropout: float = _share(0.0, "share of the edges that a training query misses")
    learning_rate: float = _number(0.005, "step size of AdamW", above=0, most=100)
    warm_up: int = _integer(100, "batches over which the step size rises", least=1, most=1_000_000_000)
    decay_power: float = _number(0.7, "the step size falls as (1 − progress) to this power", most=100)
    weight_decay: float = _number(0.01, "of AdamW", most=1)
    gradient_clip: float = _number(1.0, "largest norm of the gradient", above=0, most=1e6)
    averaging: float = _share(0.998, "decay of the moving average of the weights that are kept; 0: the last weights")
    evaluations: int = _integer(5, "evaluations on dev during training", least=1, most=10_000)
    dev_queries: int = _integer(2000, "dev queries ranked during training; 0: all", most=MOST_IDS)
    seed: int = _integer(0, "the same seed gives the same result", most=MOST_SEED)

    @property
    def has_gate(self) -> bool:
        """Whether the priority of a node gates its messages, so that it is learnt."""
        return self.senders > 0

    @property
    def has_max(self) -> bool:
        """Whether the maximum of messages is an aggregate."""
        return self.aggregation in ("max", "mean-max")

    @property
    def has_mean(self) -> bool:
        """Whether the mean of messages is an aggregate."""
        return self.aggregation in ("mean", "mean-max")


class RuleSettings(Group):
    """NeuralLP and DRUM: soft rules, and their training"""

    hops: int = _integer(3, "T: relations in the longest rules", least=1, most=8)
    rank: int = _integer(3, "DRUM: models that are added up", least=1, most=100)
    dimension: int = _integer(128, "size of the embedding of the query's relation", least=1, most=MOST_DIMENSIONS)
    hidden_dimension: int = _integer(128, "size of the LSTM that gives the attentions", least=1, most=MOST_DIMENSIONS)
    hiding: Literal["fact", "between", "query", "head"] = _choice("fact", _HIDING)
    queries: int = _integer(100_000, "training queries, both directions together", least=1, most=MOST_IDS)
    batch_size: int = _integer(64, "queries in a batch", least=1, most=MOST_BATCH)
    learning_rate: float = _number(0.003, "step size of Adam", above=0, most=100)
    decay_power: float = _number(1.0, "the step size falls as (1 − progress) to this power; 0: it does not", most=100)
    gradient_clip: float = _number(5.0, "largest norm of the gradient", above=0, most=1e6)
    evaluations: int = _integer(10, "evaluations on dev during training", least=1, most=10_000)
    dev_queries: int = _integer(2000, "dev queries ranked during training; 0: all", most=MOST_IDS)
    seed: int = _integer(0, "the same seed gives the same result", most=MOST_SEED)


class NtpSettings(Group):
    """NTP-λ: a prover with learnt rules beside ComplEx on the same embeddings, and their training"""

    templates: str = _text(
        "same, inverse, chain",
        "bodies of rules r(X,Y): same s(X,Y), inverse s(Y,X), transitive s(X,Z) s(Z,Y), chain s(X,Z) t(Z,Y)",
        most=1_000,
    )
    copies: int = _integer(20, "rules of each template, each with predicates of its own", least=1, most=10_000)
    dimension: int = _integer(100, "size of an embedding, an even number", least=2, most=100_000)
    initial_scale: float = _number(0.16, "initial embeddings are uniform from minus this to this", above=0, most=10)
    ranks_by: Literal["prover", "mean", "max"] = _choice(
        "prover", "score of an answer: the prover's, or the mean or the larger one of the prover's and ComplEx's probability"
    )
    complex_weight: float = _number(1.0, "weight of ComplEx in the loss; 0: the prover alone", most=1000)
    corruptions: int = _integer(
        4, "corrupted facts beside each fact, by turns: of the head, of the tail, and two of both", least=1, most=1000
    )
    batch_size: int = _integer(10, "facts in a batch", least=1, most=100_000)
    learning_rate: float = _number(0.001, "step size of Adam", above=0, most=100)
    learning_rate_decay: float = _number(1.0, "factor on the step size after each epoch", above=0, most=1)
    l2: float = _number(0.001, "weight of the L2 penalty", most=1000)
    gradient_clip: float = _number(1.0, "largest absolute value of a component of the gradient", above=0, most=1e6)
    epochs: int = _integer(100, "passes over all facts, at most", least=1, most=MOST_EPOCHS)
    evaluate_every: int = _integer(5, "epochs between two evaluations on dev", least=1, most=MOST_EPOCHS)
    patience: int = _integer(10, "evaluations without a better dev MRR before training stops", least=1, most=MOST_EPOCHS)
    seed: int = _integer(0, "the same seed gives the same result", most=2**63 - 1)


class Settings(Group):
    """Everything that can be set, in groups.

    >>> Settings().graph.fan_out
    400
    """

    read: ReadSettings = ReadSettings()
    split: SplitSettings = SplitSettings()
    graph: GraphSettings = GraphSettings()
    walk: WalkSettings = WalkSettings()
    walker: WalkerSettings = WalkerSettings()
    scorer: ScorerSettings = ScorerSettings()
    propagation: PropagationSettings = PropagationSettings()
    rules: RuleSettings = RuleSettings()
    ntp: NtpSettings = NtpSettings()


def validated(values: Mapping[str, Any]) -> Settings:
    """The settings of nested dictionaries, or a `SettingsError` that names the first key at fault."""
    known = [*dotted_names(), *Settings.model_fields]
    for name in _dotted_keys(values):
        if name not in known:
            same_end = [setting for setting in known if setting.endswith(f".{name.split('.')[-1]}")]
            remedy = (
                did_you_mean(name, same_end, most=9, cutoff=0)
                or did_you_mean(name, known)
                or "`hopwalk settings` lists them all."
            )
            raise SettingsError(f"there is no setting {name!r}", remedy=remedy)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join([str(part) for part in first["loc"]][:2])
        value = repr(first["input"])
        shown = value if len(value) <= 60 else f"{value[:59]}…"
        raise SettingsError(f"{name} = {shown} is not valid: {first['msg']}") from None


def changed(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """The settings with some values replaced, by dotted name.

    >>> changed(Settings(), {"walk.hops": 2}).walk.hops
    2
    """
    nested = settings.model_dump()
    for name, value in values.items():
        set_dotted(nested, name, value)
    return validated(nested)


def set_dotted(values: dict[str, Any], name: str, value: Any) -> None:
    """Set one value of nested dictionaries by its dotted name."""
    *groups, last = name.split(".")
    for group in groups:
        inner = values.setdefault(group, {})
        if not isinstance(inner, dict):
            raise SettingsError(f"there is no setting {name!r}", remedy="`hopwalk settings` lists them all.")
        values = inner
    values[last] = value


def dotted_names(group: type[BaseModel] = Settings, prefix: str = "") -> Iterator[str]:
    """The dotted name of every setting: `graph.fan_out`, …"""
    for name, field in group.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from dotted_names(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _dotted_keys(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _dotted_keys(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"

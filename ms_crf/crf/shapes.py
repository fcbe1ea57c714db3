"""What types and shapes of tensors must be, which a graph knows when it is compiled, and one line about the tensor that
is not.

An axis of any size is None or -1.
"""

FLOATS = ('Float16', 'BFloat16', 'Float32', 'Float64')
INTEGERS = ('Int8', 'Int16', 'Int32', 'Int64', 'UInt8', 'UInt16', 'UInt32', 'UInt64')
Described = tuple[object, tuple]   # the type of a tensor and its shape


def check_scalar(name: str, tensor: Described, allowed: tuple) -> None:
    """A tensor in the place of a number."""
    dtype, shape = str(tensor[0]), tensor[1]
    if dtype not in allowed:
        raise TypeError(f'{name} must be a number or a tensor of one of {", ".join(allowed)}, got {dtype}')
    if shape != ():
        raise ValueError(f'{name} must be a number or a tensor without axes, got shape {shape}')


def check_argument(name: str, argument: Described, form: str, expected: tuple) -> None:
    """An argument that has to be like something else, which `form` describes."""
    dtype, shape = str(argument[0]), argument[1]
    if dtype not in FLOATS + INTEGERS:
        raise TypeError(f'{name} must be a tensor of numbers, got {dtype}')
    if _differ(shape, expected):
        raise ValueError(f'{name} must have the shape of {form}, {expected}, got {shape}')


def check_shape_is_known(name: str, shape: tuple) -> None:
    """A method that is compiled for one shape at a time."""
    if None in shape or -1 in shape:
        raise ValueError(f'{name} needs emissions of a known shape, got {shape}; it has no graph for any shape, '
                         'so compile it for each shape, without dynamic=1, set_inputs or export of any shape')


def _check_floats(name: str, dtype: object) -> None:
    if str(dtype) not in FLOATS:
        raise TypeError(f'{name} must be a tensor of floats, got {dtype}')


def _check_integer_tensor(name: str, dtype: object) -> None:
    if str(dtype) not in INTEGERS:
        raise TypeError(f'{name} must be a tensor of integers, got {dtype}')


def _differ(shape: tuple, expected: tuple) -> bool:
    """Whether two shapes can't be the same; None and -1 are axes of any size."""
    return len(shape) != len(expected) or any(not {None, -1} & {one, other} and one != other
                                              for one, other in zip(shape, expected))


def check_arguments(num_tags: int, batch_first: bool, emissions: Described, tags: Described | None = None,
                    seq_length: Described | None = None) -> None:
    """The arguments of most calls; None for an argument that is not given."""
    _check_floats('emissions', emissions[0])
    if tags is not None:
        _check_integer_tensor('tags', tags[0])
    if seq_length is not None:
        _check_integer_tensor('seq_length', seq_length[0])
    shape = emissions[1]
    layout = '(batch, length, num_tags)' if batch_first else '(length, batch, num_tags)'
    if len(shape) != 3:
        raise ValueError(f'emissions must be {layout}, got shape {shape}')
    if _differ(shape[2:], (num_tags,)):
        raise ValueError(f'emissions must be {layout} with num_tags = {num_tags}, got shape {shape}')
    if 0 in shape:
        raise ValueError(f'emissions must be {layout} with no empty axis, got shape {shape}')
    if tags is not None and _differ(tags[1], shape[:2]):
        raise ValueError(f'tags must be {layout[:-11]}) like emissions[..., 0] = {shape[:2]}, got shape {tags[1]}; '
                         f'batch_first is {batch_first}')
    batch = shape[0] if batch_first else shape[1]
    if seq_length is not None and _differ(seq_length[1], (batch,)):
        raise ValueError(f'seq_length must be (batch,) = ({batch},) for emissions {shape}, got shape {seq_length[1]}; '
                         f'batch_first is {batch_first}')


def check_shapes_of_scores(num_tags: int, transitions: tuple, start: tuple, end: tuple) -> None:
    """Shapes of a layer's parameters."""
    for name, shape in (('transitions', transitions), ('start_transitions', start), ('end_transitions', end)):
        expected = (num_tags, num_tags) if name == 'transitions' else (num_tags,)
        if shape != expected:
            raise ValueError(f'{name} must have shape {expected} for num_tags = {num_tags}, got {shape}; '
                             'make a new layer for another number of tags')


def check_comparable(num_tags: int, batch_first: bool, other_num_tags: int, other_batch_first: bool) -> None:
    """Two layers with as many tags and the same layout."""
    if num_tags != other_num_tags:
        raise ValueError(f'other must have as many tags, {num_tags}, got {other_num_tags}')
    if batch_first != other_batch_first:
        raise ValueError(f'other must have the same layout, batch_first = {batch_first}, got {other_batch_first}')


def check_paths_argument(paths: Described, emissions: Described, batch_first: bool) -> None:
    """Paths for emissions."""
    expected = emissions[1][:2] if batch_first else emissions[1][1::-1]
    _check_integer_tensor('paths', paths[0])
    if _differ(paths[1], expected):
        raise ValueError(f'paths must be (batch, length) = {expected}, got shape {paths[1]}')


def check_sets(emissions: Described, sets: Described) -> None:
    """Tags that are bool, for each token which tags it may have, for emissions."""
    if _differ(sets[1], emissions[1]):
        raise ValueError(f'tags of bool, which say for each token what tags it may have, must be like emissions, '
                         f'{emissions[1]}, got shape {sets[1]}')


def check_pair_emissions_argument(num_tags: int, batch_first: bool, emissions: Described,
                                  pair_emissions: Described) -> None:
    """Pair emissions for emissions."""
    _check_floats('pair_emissions', pair_emissions[0])
    shape, actual = (tuple(None if size == -1 else size for size in tensor[1])
                     for tensor in (emissions, pair_emissions))
    batch, length = shape[:2] if batch_first else shape[1::-1]
    steps = None if length is None else length - 1
    expected = (*((batch, steps) if batch_first else (steps, batch)), num_tags, num_tags)
    if _differ(actual, expected):
        names = 'batch, length - 1' if batch_first else 'length - 1, batch'
        raise ValueError(f'pair_emissions must be ({names}, num_tags, num_tags) = {expected} for emissions '
                         f'{shape}, got shape {pair_emissions[1]}; batch_first is {batch_first}')


def check_function(emissions: Described, **others: Described) -> None:
    """Arguments of the tutorial's functions."""
    dtype, shape = emissions
    _check_floats('emissions', dtype)
    if len(shape) != 3 or 0 in shape:
        raise ValueError(f'emissions must be (length, batch, num_tags) with no empty axis, got shape {shape}')
    length, batch, num_tags = shape
    expected = {'mask': ('(length, batch)', (length, batch)), 'tags': ('(length, batch)', (length, batch)),
                'seq_ends': ('(batch,)', (batch,)), 'trans': ('(num_tags, num_tags)', (num_tags, num_tags)),
                'start_trans': ('(num_tags,)', (num_tags,)), 'end_trans': ('(num_tags,)', (num_tags,))}
    for name, (dtype, actual) in others.items():
        form, wanted = expected[name]
        if actual != wanted:
            raise ValueError(f'{name} must be {form} = {wanted} for emissions {shape}, got shape {actual}')
        if name in ('tags', 'seq_ends'):
            _check_integer_tensor(name, dtype)
        if name.endswith('trans'):
            _check_floats(name, dtype)


def check_lengths_argument(seq_length: Described, batch: int | None = None) -> None:
    """seq_length where no emissions are at hand."""
    dtype, shape = seq_length
    _check_integer_tensor('seq_length', dtype)
    if _differ(shape, (batch,)) or 0 in shape:
        raise ValueError(f'seq_length must be (batch,){"" if batch is None else f" = ({batch},)"}, got shape {shape}')

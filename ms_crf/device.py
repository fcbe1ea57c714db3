"""Chooses the device, before MindSpore starts."""

from ms_crf import environment
from ms_crf.options import OptionError

NAMES = ('auto', 'CPU', 'GPU', 'Ascend')


def choose(name):
    """Makes MindSpore compute on a device.

    Args:
        name: 'CPU', 'GPU', 'Ascend', or 'auto' for the first that this machine shows of Ascend, GPU and CPU.

    Returns:
        The device's name.

    Raises:
        OptionError: the device does not work here.
    """
    if name == 'auto':
        name = next(device for device in ('Ascend', 'GPU', 'CPU') if environment.present(device))
    instead = 'use --device CPU, or a machine with its driver and the MindSpore for it'
    if not environment.present(name):
        raise OptionError(f'--device {name} does not work here: this machine shows no {name} device; {instead}')
    environment.prepare(name)
    import mindspore as ms  # here, because it reads its environment when it starts
    try:
        if ms.get_context('device_target') != name:      # MindSpore refuses it once it has computed
            ms.set_device(name)
        ms.Tensor([1.0]).sum().asnumpy()
    except Exception as error:                   # what is raised differs from device to device
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise OptionError(f'--device {name} does not work here: {reason[:160]}; {instead}') from None
    return name

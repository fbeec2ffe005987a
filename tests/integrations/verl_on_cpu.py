"""Runs verl on a CPU through verl's extension points: a platform, and its FSDP engine registered for it. verl itself loads this module
(VERL_USE_EXTERNAL_MODULES=verl_on_cpu), in Ray workers, too."""

import contextlib
import types

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry, set_platform

_device_module = types.SimpleNamespace(
    max_memory_allocated=lambda *_: 0, max_memory_reserved=lambda *_: 0, memory_allocated=lambda *_: 0, memory_reserved=lambda *_: 0,
    mem_get_info=lambda *_: (0, 0), empty_cache=lambda: None, synchronize=lambda *_: None, device_count=lambda: 0,
    current_device=lambda: 0, set_device=lambda *_: None, is_available=lambda: False, get_device_name=lambda *_: "CPU")


@PlatformRegistry.register(platform="cpu")
class PlatformCpu(PlatformBase):
    device_name = "cpu"
    vendor_name = "none"
    device_module = _device_module

    def is_available(self):
        return True

    def is_platform_available(self, use_smi_check=False):
        return True

    def current_device(self):
        return torch.device("cpu")

    def device_count(self):
        return 0

    def set_device(self, device_index):
        pass

    def synchronize(self, device_index=None):
        pass

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    def manual_seed_all(self, seed):
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings):
        pass

    def empty_cache(self):
        pass

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    def nvtx_range(self, msg):
        return contextlib.nullcontext()

    def profiler_start(self):
        pass

    def profiler_stop(self):
        pass

    def ray_resource_name(self):
        return "CPU"

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False

    def cudart(self):
        return None


set_platform(PlatformCpu())


def register_engine():
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp import FSDPEngineWithLMHead

    if "cpu" not in EngineRegistry._engines["language_model"]["fsdp2"]:
        EngineRegistry.register(model_type="language_model", backend="fsdp2", device="cpu")(FSDPEngineWithLMHead)

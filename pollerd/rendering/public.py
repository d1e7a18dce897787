"""The public names of `pollerd.rendering`; other packages import them from there."""

from pollerd.rendering.outcome import RenderedOutcome
from pollerd.rendering.plan.compile import DEFAULT_PLAN, compile_plan
from pollerd.rendering.plan.plan import RenderPlan
from pollerd.rendering.plan.secrets import join_secrets, secret_positions, split_secrets
from pollerd.rendering.proxy.session import MayConnect
from pollerd.rendering.renderer import Renderer
from pollerd.rendering.settings import DEFAULT_RENDER_COST, RenderingSettings

__all__ = [
    "DEFAULT_PLAN",
    "DEFAULT_RENDER_COST",
    "MayConnect",
    "RenderPlan",
    "RenderedOutcome",
    "Renderer",
    "RenderingSettings",
    "compile_plan",
    "join_secrets",
    "secret_positions",
    "split_secrets",
]

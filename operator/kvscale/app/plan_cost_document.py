"""Costs and levers as a document for scripts. The keys are a contract."""

from kvscale.app.documents import Document
from kvscale.app.plan_cost import PlanCost
from kvscale.core.devices.price import MICROS, Price
from kvscale.core.planning.cost.levers import Lever, Standing
from kvscale.core.values import Band


def cost_document(cost: PlanCost) -> Document:
    """Costs for a script, in units of the currency."""
    return {
        "currency": cost.price.currency,
        "perDeviceHour": cost.price.per_device_hour,
        "price": price_document(cost.price),
        "perReplicaHour": money(cost.replica_micros_per_hour),
        "perMillionOutputTokens": [
            {
                "at": point.name,
                "batch": _batch(point.batch_milli),
                "cost": _money_band(point.micros_per_million),
            }
            for point in cost.points
        ],
        "rates": [
            {
                "rate": one.name,
                "replicas": one.replicas,
                "perHour": money(one.micros_per_hour),
                "perMillionOutputTokens": money(one.micros_per_million),
                "lastReplicaPerMillionOutputTokens": money(one.last_micros_per_million),
            }
            for one in cost.rates
        ],
        "moves": [
            {
                "change": move.change,
                "perMillionOutputTokens": money(move.micros_per_million),
                "note": move.note,
            }
            for move in cost.moves
        ],
    }


def price_document(price: Price) -> Document:
    """Who says what a device costs, and when."""
    return {"source": price.source, "asOf": price.as_of or None}


def lever_document(lever: Lever) -> Document:
    """A lever for a script."""
    return {
        "name": lever.name,
        "change": lever.change,
        "caveat": lever.caveat,
        "gain": round(lever.gain, 3),
        "before": _standing_document(lever.before),
        "after": _standing_document(lever.after),
    }


def _standing_document(standing: Standing) -> Document:
    cost = standing.micros_per_million
    return {
        "devicesPerEngine": standing.devices,
        "sequencesPerDevice": standing.sequences_milli / 1000,
        "tokensPerDevice": standing.tokens,
        "perMillionOutputTokens": None if cost is None else money(cost),
    }


def money(micros: int) -> float:
    """Units of the currency, to six decimals."""
    return round(micros / MICROS, 6)


def _batch(milli: Band) -> Document:
    return {"low": milli.low / 1000, "expected": milli.expected / 1000, "high": milli.high / 1000}


def _money_band(micros: Band) -> Document:
    return {
        "low": money(micros.low),
        "expected": money(micros.expected),
        "high": money(micros.high),
    }

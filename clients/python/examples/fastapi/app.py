import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, HTTPException

from duetime import AsyncClient, Worker

client = AsyncClient()
worker = Worker(client, queues=["orders"])
states: dict[int, str] = {}


@dataclass
class CancelOrder:
    order: int


@worker.handler("order.cancel")
async def cancel_order(job: CancelOrder) -> str:
    if states.get(job.order) == "unpaid":
        states[job.order] = "cancelled"
    return states.get(job.order, "unknown")


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # The worker works beside the requests. When uvicorn stops, running jobs end first.
    async with client, worker:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}")
async def place(order: int) -> dict[str, Any]:
    states[order] = "unpaid"
    delay = os.environ.get("SHOP_PAY_WITHIN", "30m")
    pushed = await client.push("orders", {"order": order}, kind="order.cancel", key=f"order-{order}", delay=delay)
    return {"order": order, "job": pushed.id}


@app.post("/orders/{order}/pay")
async def pay(order: int) -> dict[str, Any]:
    if states.get(order) != "unpaid":
        raise HTTPException(409, f"the order is {states.get(order, 'unknown')}")
    states[order] = "paid"
    return {"order": order, "job": await client.cancel_by_key("orders", f"order-{order}")}


@app.get("/orders/{order}")
async def show(order: int) -> dict[str, Any]:
    return {"order": order, "state": states.get(order, "unknown")}


@app.get("/health")
async def health() -> dict[str, Any]:
    return worker.health()

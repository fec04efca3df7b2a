from dataclasses import dataclass

from django.db import transaction

from duetime import Worker
from duetime.django import push

worker = Worker(queues=["orders", "mail"])


@dataclass
class CancelOrder:
    order: int


@worker.handler("order.cancel")
def cancel_order(job: CancelOrder) -> str:
    from .models import Order

    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=job.order)
        if order.state != "unpaid":
            return f"order {order.pk} is {order.state}"
        order.state = "cancelled"
        order.save()
        # Once the order is cancelled. With an origin, a second run of this job makes no second mail.
        push("mail", {"order": order.pk}, kind="mail.cancelled", origin=f"mail-cancelled-{order.pk}")
    return f"order {order.pk} is cancelled"


@worker.handler("mail.cancelled")
def mail(payload: dict) -> None:
    print(f"mail: your order {payload['order']} is cancelled", flush=True)

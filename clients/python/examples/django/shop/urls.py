import os

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from duetime.django import cancel_by_key, push

from .models import Order


@transaction.atomic
def place(request: HttpRequest) -> JsonResponse:
    order = Order.objects.create()
    delay = os.environ.get("SHOP_PAY_WITHIN", "30m")
    push("orders", {"order": order.pk}, kind="order.cancel", key=f"order-{order.pk}", delay=delay)
    if "fail" in request.GET:
        raise RuntimeError("the order is rolled back, and nothing is pushed")
    return JsonResponse({"order": order.pk})


@transaction.atomic
def pay(request: HttpRequest, order: int) -> JsonResponse:
    Order.objects.filter(pk=order, state="unpaid").update(state="paid")
    cancel_by_key("orders", f"order-{order}")
    return JsonResponse({"order": order, "state": Order.objects.get(pk=order).state})


urlpatterns = [path("place", place), path("pay/<int:order>", pay)]

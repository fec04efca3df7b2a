import os

SECRET_KEY = "only for this example"
DEBUG = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["duetime.django", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DB", "shop.sqlite3")}}

# Where the server is comes from DUETIME_SERVER and DUETIME_TOKEN, or from "server" and "token" here.
DUETIME = {"worker": "shop.jobs:worker"}

<?php

declare(strict_types=1);

require __DIR__ . '/../src/autoload.php';
require __DIR__ . '/ScriptedHttp.php';
require __DIR__ . '/Site.php';
require __DIR__ . '/Quiet.php';

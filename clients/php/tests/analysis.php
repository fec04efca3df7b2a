<?php

declare(strict_types=1);

// What a static analyser loads: the classes, and those of other packages that they can use, where Debian has them.
foreach (['Psr/Log', 'Psr/Http/Client', 'Psr/Http/Message'] as $package) {
    foreach (glob("/usr/share/php/$package/*autoload.php") ?: [] as $file) {
        require_once $file;
    }
}
require __DIR__ . '/../src/autoload.php';
require __DIR__ . '/OpenTelemetry.php';

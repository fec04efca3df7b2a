<?php

declare(strict_types=1);

// Loads the classes of this package where Composer does not: in the keeper's process, in tests, in a copy without Composer.
spl_autoload_register(static function (string $class): void {
    $file = __DIR__ . '/' . strtr(substr($class, 8), '\\', '/') . '.php';
    if (str_starts_with($class, 'Duetime\\') && is_file($file)) {
        require $file;
    }
});

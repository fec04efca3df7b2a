<?php

declare(strict_types=1);

namespace Duetime\Http;

use Duetime\Error\{Protocol, Unavailable};

/** ext-curl, with one handle whose connections are reused. A forked process gets its own. */
final class CurlHttp implements Http
{
    /** Seconds without a byte after which a stream counts as lost. */
    private const SILENCE = 45;
    /** A header without a value is not sent. This one would cost a round trip before each large body. */
    private const EXPECT = 'expect:';

    private ?\CurlHandle $handle = null;
    private int $pid = 0;
    /** @var array<int, mixed> what the handle was told for its last request */
    private array $options = [];

    /** @param string|null $ca file with the certificates that a server's may be signed by, instead of the system's */
    public function __construct(private readonly ?string $ca = null)
    {
    }

    /** As `Http::send` says. */
    public function send(string $method, string $url, array $headers, ?string $body, int $timeoutMs, ?\Closure $isAborted = null): Response
    {
        $options = self::address($url) + [
            \CURLOPT_CUSTOMREQUEST => $method,
            \CURLOPT_HTTPHEADER => [...$headers, self::EXPECT],
            \CURLOPT_TIMEOUT_MS => max(1, $timeoutMs),
            \CURLOPT_CONNECTTIMEOUT_MS => max(1, $timeoutMs),
        ];
        if ($body !== null) {
            $options[\CURLOPT_POSTFIELDS] = $body;
        }
        if ($isAborted !== null) {
            // This also lets PHP call the handlers of signals during a long wait.
            $options[\CURLOPT_NOPROGRESS] = false;
            $options[\CURLOPT_XFERINFOFUNCTION] = static fn (): int => $isAborted() ? 1 : 0;
        }
        $handle = $this->handle($options);
        $text = curl_exec($handle);
        $error = curl_errno($handle);
        $head = (int) curl_getinfo($handle, \CURLINFO_HEADER_SIZE);
        if ($error === \CURLE_OK && \is_string($text)) {
            // curl repeats a request by itself if a connection that it has used before breaks. It counts what it has sent.
            $isRepeat = curl_getinfo($handle, \CURLINFO_NUM_CONNECTS) > 0
                && curl_getinfo($handle, \CURLINFO_REQUEST_SIZE) >= 2 * \strlen((string) curl_getinfo($handle, \CURLINFO_HEADER_OUT));
            $status = (int) curl_getinfo($handle, \CURLINFO_RESPONSE_CODE);
            return new Response($status, self::fields(substr($text, 0, $head)), substr($text, $head), $isRepeat);
        }
        if ($error === \CURLE_ABORTED_BY_CALLBACK) {
            throw new Aborted('stopped while waiting');
        }
        $why = curl_error($handle);
        $problem = match ($error) {
            \CURLE_OPERATION_TIMEDOUT => new Unavailable('timeout', 0, "$url: no answer within $timeoutMs ms"),
            // The answer had begun: 18 is CURLE_PARTIAL_FILE, 56 a connection that broke while receiving.
            18, \CURLE_RECV_ERROR => $head === 0 ? new Unavailable('unreachable', 0, "$url: $why")
                : new Protocol('protocol', 0, "$url: the answer was cut off ($why)"),
            default => new Unavailable('unreachable', 0, "$url: $why"),
        };
        $problem->isUnsent = \in_array($error, [\CURLE_COULDNT_RESOLVE_HOST, \CURLE_COULDNT_CONNECT], true);
        throw $problem;
    }

    /**
     * The parts of an answer that does not end, as they arrive.
     *
     * @param list<string> $headers
     * @return \Generator<int, string, mixed, int> returns the status
     */
    public static function stream(string $url, array $headers, ?string $ca): \Generator
    {
        $parts = [];
        $handle = curl_init();
        curl_setopt_array($handle, self::common($ca) + self::address($url) + [
            \CURLOPT_HTTPHEADER => [...$headers, self::EXPECT],
            \CURLOPT_CONNECTTIMEOUT_MS => 5_000,
            // The server sends a comment every 15 s. A connection that is silent for longer is dead.
            \CURLOPT_LOW_SPEED_LIMIT => 1,
            \CURLOPT_LOW_SPEED_TIME => self::SILENCE,
            \CURLOPT_WRITEFUNCTION => static function (\CurlHandle $handle, string $part) use (&$parts): int {
                $parts[] = $part;
                return \strlen($part);
            },
        ]);
        $multi = curl_multi_init();
        curl_multi_add_handle($multi, $handle);
        try {
            do {
                curl_multi_exec($multi, $isRunning);
                while ($parts !== []) {
                    yield array_shift($parts);
                }
                if ($isRunning) {
                    curl_multi_select($multi, 1.0);
                }
            } while ($isRunning);
            return (int) curl_getinfo($handle, \CURLINFO_RESPONSE_CODE);
        } finally {
            curl_multi_remove_handle($multi, $handle);
        }
    }

    /** @return array<int, mixed> the same for all requests */
    private static function common(?string $ca): array
    {
        // A name may be `..`, which a path would lose. A proxy of the environment is for other addresses.
        return [\CURLOPT_NOSIGNAL => true, \CURLOPT_PATH_AS_IS => true, \CURLOPT_PROTOCOLS => \CURLPROTO_HTTP | \CURLPROTO_HTTPS, \CURLOPT_PROXY => '']
            + ($ca === null ? [] : [\CURLOPT_CAINFO => $ca]);
    }

    /** @return array<int, string> */
    private static function address(string $url): array
    {
        return str_starts_with($url, 'unix:') && preg_match('#^unix:(.+?):(/.*)$#s', $url, $parts) === 1
            ? [\CURLOPT_URL => "http://localhost{$parts[2]}", \CURLOPT_UNIX_SOCKET_PATH => $parts[1]]
            : [\CURLOPT_URL => $url];
    }

    /** @return array<string, string> by lower-case name */
    private static function fields(string $head): array
    {
        $fields = [];
        foreach (explode("\r\n", $head) as $line) {
            $parts = explode(':', $line, 2);
            if (isset($parts[1])) {
                $fields[strtolower($parts[0])] = trim($parts[1]);
            }
        }
        return $fields;
    }

    /**
     * The handle. It is told only what is new: most requests differ in little but their bodies.
     *
     * @param array<int, mixed> $options
     */
    private function handle(array $options): \CurlHandle
    {
        $isOurs = $this->pid === getmypid();
        $handle = $this->handle !== null && $isOurs ? $this->handle : curl_init();
        if ($handle !== $this->handle || array_diff_key($this->options, $options) !== []) {
            [$this->handle, $this->pid] = [$handle, (int) getmypid()];
            curl_reset($handle);
            curl_setopt_array($handle, self::common($this->ca) + [\CURLOPT_RETURNTRANSFER => true, \CURLOPT_HEADER => true, \CURLINFO_HEADER_OUT => true]);
            $this->options = [];
        }
        foreach ($options as $option => $value) {
            if (!isset($this->options[$option]) || $this->options[$option] !== $value) {
                curl_setopt($handle, $option, $value);
            }
        }
        $this->options = $options;
        return $handle;
    }
}

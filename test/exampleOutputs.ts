/** The output of each example, by its file. */
export const says: Readonly<Record<string, RegExp>> = {
  "failover.ts":
    /^\[[^\n]*\] ERROR [^\n]*#revoked: the key was refused[^\n]*\n\[[^\n]*\] WARN [^\n]*Switched from [^\n]*\nThe Nile\.\nopenai\/gpt-4\.1#good answered in attempt 3, for \$0\.0000\d\d\n$/,
  "agent.ts": /AttemptFailed\n[\s\S]*In Lisbon it is ten past nine\.\n2 turns, 1 tool call, \$0\.000\d+\n$/,
  "virtual-time.ts": /^Here I am again\. The requests were sent at 0 and 40s\.\n$/,
  "property-timing.ts":
    /^patient: holds in 100 worlds\nhasty: TimingViolated: waited [^\n]*, less than the [^\n]* that the server named\n\n\+0\.000s attempt [^\n]* → RateLimit \(429\)\n[\s\S]*end: success\n$/,
  "service.ts":
    /^The Nile\. \(2 turns, anthropic\/claude-sonnet-4-5#demo\)\nThe provider got 3 requests\.\n$/,
  "environments.ts":
    /^test:\n\+0\.000s attempt anthropic#1 → RateLimit \(429\)\n[^]*\+3\d\.\d{3}s attempt anthropic#2 → answer\n[^]*development: The Nile\.\nproduction without a key: ChainError\n$/,
  "chromium.ts":
    /^the browser answers: true, closed\ncommand 1: CdpError, closed\ncommand 2: CdpError, closed\ncommand 3: CdpError, open\n(\[[^\n]*\] WARN [^\n]*\n)?command 4: CircuitRefused, open\n(\[[^\n]*\] WARN [^\n]*\n)?a new browser: closed\n$/,
  "guard-only.ts": /^Forced stop: reached maximum of 5 tool invocations\.[^\n]*\n$/,
  "nudge.ts":
    /^(follows, \w+: without nudges 20\.0 calls, 0 of 1 ended; with nudges [3-9]\.0 calls, 1 of 1 ended\n){4}(does not, \w+: without nudges 20\.0 calls, 0 of 1 ended; with nudges 20\.0 calls, 0 of 1 ended\n){4}$/,
  "compaction-only.ts":
    /^limit: 12480 tokens, the window of 16,000, less 3,200 for the answer and 320 in reserve\n\d+ tokens become \d+, by strip\nmessages: 81 before, 81 after\nthe task is still there: true\n$/,
  "ai-sdk-agent.ts":
    /^max_tool_calls: 3 searches ran\nanthropic\/claude-sonnet-4-5#DEMO_KEY: cooling\nanthropic\/claude-sonnet-4-5#DEMO_KEY_2: ready\n$/,
  "ai-sdk-two-lines.ts":
    /^(\[[^\n]*\] WARN [^\n]*\n)*The Nile flows north, through eleven countries, to the sea\.\n3 requests\n$/,
  "circuit-ref.ts":
    /^call 1: down, closed\ncall 2: down, closed\ncall 3: down, open\ncall 4: Refused, open\n1 of 100 was the probe, closed\n$/,
  "own-policy.ts":
    /^\[[^\n]*\] WARN [^\n]*A call failed\. [^\n]*\nNo target is left after 2 attempts\.\n[\s\S]*\nattempts: 2\n$/,
  "permissions.ts":
    /^read notes\.txt\n(\[[^\n]*\] WARN [^\n]*refused by the permission hook[^\n]*\n){2}asked: may it run "git push"\? yes\nran git push\nWhat I may do is done\.\nran touch a\nran touch b\nForced stop: reached maximum of 2 calls of run_command\.[^\n]*\n$/,
  "compaction.ts":
    /^( {2}(strip|chunks): \d+ tokens become \d+\n){3,}It rains on every page\.\n121 turns, made to fit \d times, with \d calls for summaries\nThe model was told the task in 121 calls of 121\n$/,
  "restart.ts":
    /^Taken back: "The Nile flows north,"\n\[[^\n]*\] WARN [^\n]*Switched from [^\n]*\nSwitched to gpt-4\.1: claude-sonnet-4-5 cannot be reached\.\nThe Nile ends in the Mediterranean Sea\.\n$/,
  "targets.ts":
    /^first life\n\[[^\n]*\] ERROR [^\n]*#FIRST: the account has no money[^\n]*\n  FIRST: cooling, [^\n]*; back in 30 min\n  SECOND: ready\nsecond life\n  FIRST: cooling, [^\n]*; back in 30 min\n  SECOND: ready\nafter the reset\n  FIRST: ready\n  SECOND: ready\nasked: FIRST, SECOND, SECOND, FIRST\n$/,
  "sqlite.ts":
    /^first process\n\[[^\n]*\] ERROR [^\n]*#FIRST: the account has no money[^\n]*\n {2}asked: FIRST, SECOND\nsecond process\n {2}FIRST is out for another 30 min\n {2}asked: SECOND\n$/,
  "ai-sdk.ts":
    /^(searched for rivers\nThe Nile flows north, through eleven countries, to the sea\.\nanswered by anthropic\/claude-sonnet-4-5#good( in attempt 2)?\n){2}$/,
  "delivery.ts":
    /^(?:The broker is up: an order is safe at the broker\.\nThe broker is down: three orders are safe in the store\.\nThe broker is up again: billing has them\.\nIn order: yes\nMissing: none)\n$/,
  "host.ts":
    /^20 events are accepted\. The webhook is down\.\nSIGTERM in the middle of the runs: exit code 0\nTwo starts at once: one runs, the other ends with exit code 75\nTen more events, and then SIGKILL\nRuns go on where they were: yes\nAnswered: 30 of 30\nThe end: exit code 0\n$/,
  "session-death.ts":
    /^worker: answers\nSessionDied\nworker is dead \(probe\)\.[\s\S]*\nworker: sent to the new one\nSessionDied\npane: dead\n(PingUnavailable: no-such-tmux cannot be started\n)+other pane: unknown\n$/,
  "browser-session.ts":
    /^clicked in A1\n {2}PingUnavailable\nclicked in A1\n {2}SessionDied\ntab A1 is dead [^\n]*\nclicked in B2\n {2}SessionDied\ntab B2 is dead [^\n]*\n$/
}

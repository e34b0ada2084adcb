/**
 * One Lua script for the operations that must be atomic across processes: claiming and ending a probe, and changing a
 * verdict if no other process has changed it meanwhile.
 *
 * A circuit is one JSON record. Its fields are those of `CircuitState`, with times in Unix milliseconds of the server's
 * clock, and `v`, a version that grows with every change in the store. A circuit without a record is closed. Each
 * change is published on the store's channel. The circuit's name is also kept in a set ordered by version, for
 * processes that missed the message.
 */
import { Redis } from "effect/persistence"

export interface Record {
  readonly v: number
  readonly phase: "closed" | "open" | "half-open" | "isolated"
  readonly generation: number
  readonly since: number
  readonly until: number
  readonly cause: string
  readonly openings: number
  readonly backoff: number
  readonly lasted: number
  readonly notBefore: number
  readonly successes: number
  readonly failures: number
  /** End of each lease, by holder. */
  readonly leases: { readonly [holder: string]: number }
  /** End of each hold of an isolated circuit, by holder. A hold that is not renewed expires. */
  readonly holds: { readonly [holder: string]: number }
}

/** The local state of an opening. Times are relative to now, in milliseconds. */
export interface Seed {
  readonly generation: number
  readonly until: number
  readonly openings: number
  readonly backoff: number
  readonly lasted: number
  readonly notBefore: number
}

/** The request of a process. Times are relative to the server's now, in milliseconds. */
export type Request =
  | { readonly op: "read" }
  | {
      /** Sets the verdict if the circuit is still in the generation `expected`, or in any case with "any". */
      readonly op: "set"
      readonly expected: number | "any"
      readonly phase: "closed" | "open"
      /** The new generation in the process that decided. The store uses its own if that one is higher. */
      readonly generation: number
      readonly cause: string
      readonly until: number
      readonly openings: number
      readonly backoff: number
      readonly lasted: number
      readonly notBefore: number
    }
  | {
      readonly op: "hold"
      readonly holder: string
      readonly lease: number
      readonly generation: number
      /** Remaining wait that a server requested of this process. Still applies after the isolation. */
      readonly notBefore: number
    }
  | { readonly op: "release"; readonly holder: string; readonly generation: number }
  | {
      readonly op: "probe"
      readonly holder: string
      readonly lease: number
      readonly permits: number
      readonly outOf: number
      /** The local state of the circuit, for a store that has lost its data. */
      readonly seed: Seed
    }
  | {
      readonly op: "settle"
      readonly holder: string
      readonly generation: number
      readonly outcome: "success" | "failure" | "ignored"
      readonly successes: number
      readonly outOf: number
      /** Length of the opening if the circuit opens. */
      readonly backoff: number
      readonly notBefore: number
    }

/** `[done, now, record]`: whether the request was granted, the server's time, and the record ("" when absent). */
export type Reply = readonly [done: number, now: string, record: string]

export const channel = (prefix: string): string => `{${prefix}}:changed`
export const versionKey = (prefix: string): string => `{${prefix}}:version`
export const changesKey = (prefix: string): string => `{${prefix}}:changes`
export const recordKey = (prefix: string, circuit: string): string => `{${prefix}}:circuit:${circuit}`

/** Milliseconds for which an idle record is kept, in addition to its opening and the same length again. */
const idle = 600_000

/** Number of names kept for processes that missed an announcement. */
const remembered = 10_000

/** Milliseconds for which the names are kept after the last change: a day, longer than any opening by default. */
const forgetChanges = 86_400_000

/** The script. `now` replaces the server's time in tests; `undefined` uses the server's. */
export const script = Redis.script(
  (prefix: string, circuit: string, request: Request, now: number | undefined) => [
    recordKey(prefix, circuit),
    versionKey(prefix),
    changesKey(prefix),
    channel(prefix),
    circuit,
    now === undefined ? "" : String(now),
    JSON.stringify(request)
  ],
  {
    numberOfKeys: 3,
    lua: `
local key, versionKey, changesKey = KEYS[1], KEYS[2], KEYS[3]
local channel, circuit = ARGV[1], ARGV[2]
local now = tonumber(ARGV[3])
local ask = cjson.decode(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local raw = redis.call('GET', key)
local record = raw and cjson.decode(raw) or {
  v = 0, phase = 'closed', generation = 0, since = now, ['until'] = 0, cause = '', openings = 0, backoff = 0,
  lasted = 0, notBefore = 0, successes = 0, failures = 0, leases = {}, holds = {}
}
local exists = raw and true or false

local function reply(done)
  return { done, string.format('%.0f', now), exists and cjson.encode(record) or '' }
end

local function save(done)
  exists = true
  record.v = redis.call('INCR', versionKey)
  local last = math.max(record['until'], record.since + record.lasted, record.notBefore, now)
  for _, ends in pairs(record.leases) do last = math.max(last, ends) end
  for _, ends in pairs(record.holds) do last = math.max(last, ends) end
  redis.call('SET', key, cjson.encode(record), 'PX', string.format('%.0f', last - now + record.lasted + ${idle}))
  redis.call('ZADD', changesKey, record.v, circuit)
  redis.call('ZREMRANGEBYRANK', changesKey, 0, -${remembered + 1})
  redis.call('PEXPIRE', changesKey, ${forgetChanges})
  redis.call('PUBLISH', channel, cjson.encode({ circuit = circuit, now = now, record = record }))
  return reply(done)
end

local function enter(phase)
  record.phase = phase
  record.generation = math.max(record.generation + 1, ask.op ~= 'settle' and ask.generation or 0)
  record.since = now
  record.leases = {}
  record.successes = 0
  record.failures = 0
end

local function open(backoff, cause)
  enter('open')
  record.openings = record.openings + 1
  record.backoff = backoff
  record['until'] = math.max(math.ceil(now + backoff), record.notBefore)
  record.lasted = record['until'] - now
  record.cause = cause
end

local function living(ends)
  local kept, count = {}, 0
  for holder, at in pairs(ends) do
    if now < at then
      kept[holder] = at
      count = count + 1
    end
  end
  return kept, count
end

-- Holders that stopped renewing are gone.
local lapsed = false
if record.phase == 'isolated' then
  local count
  record.holds, count = living(record.holds)
  if count == 0 then
    enter('closed')
    lapsed = true
  end
end

if ask.op == 'read' then
  if lapsed then return save(1) end
  return reply(1)
end

if ask.op == 'set' then
  if ask.expected ~= 'any' and (record.phase == 'isolated' or ask.expected ~= record.generation) then
    if lapsed then return save(0) end
    return reply(0)
  end
  if record.phase == 'isolated' then
    if ask.phase == 'open' then return reply(0) end
    record.generation = math.max(record.generation + 1, ask.generation)
  else
    enter(ask.phase)
  end
  record.openings = ask.openings
  record.backoff = ask.backoff
  record.lasted = ask.lasted
  record.notBefore = ask.notBefore > 0 and math.ceil(now + ask.notBefore) or 0
  record['until'] = ask.phase == 'open' and math.ceil(now + ask['until']) or 0
  record.cause = ask.cause
  return save(1)
end

if ask.op == 'hold' then
  if record.phase ~= 'isolated' then enter('isolated') end
  record.holds[ask.holder] = now + ask.lease
  if ask.notBefore > 0 then record.notBefore = math.max(record.notBefore, math.ceil(now + ask.notBefore)) end
  return save(1)
end

if ask.op == 'release' then
  if record.phase ~= 'isolated' or not record.holds[ask.holder] then
    if lapsed then return save(0) end
    return reply(0)
  end
  record.holds[ask.holder] = nil
  local _, count = living(record.holds)
  if count == 0 then enter('closed') end
  return save(1)
end

if ask.op == 'probe' then
  if not exists then
    record.phase = 'open'
    record.generation = ask.seed.generation
    record['until'] = math.ceil(now + ask.seed['until'])
    record.openings = ask.seed.openings
    record.backoff = ask.seed.backoff
    record.lasted = ask.seed.lasted
    record.notBefore = ask.seed.notBefore > 0 and math.ceil(now + ask.seed.notBefore) or 0
  end
  if record.phase == 'isolated' or (record.phase == 'open' and now < record['until']) then return reply(0) end
  if record.phase == 'closed' then
    if lapsed then return save(0) end
    return reply(0)
  end
  if record.phase == 'open' then enter('half-open') end
  local count
  record.leases, count = living(record.leases)
  if count >= math.min(ask.permits, ask.outOf - record.successes - record.failures) then return reply(0) end
  record.leases[ask.holder] = now + ask.lease
  return save(1)
end

if ask.op == 'settle' then
  local ends = record.leases[ask.holder]
  if record.phase ~= 'half-open' or ask.generation ~= record.generation or not ends or now >= ends then
    if lapsed then return save(0) end
    return reply(0)
  end
  record.leases[ask.holder] = nil
  if ask.outcome == 'success' then
    record.successes = record.successes + 1
    if record.successes >= ask.successes then enter('closed') end
  elseif ask.outcome == 'failure' then
    record.failures = record.failures + 1
    if ask.notBefore > 0 then record.notBefore = math.max(record.notBefore, math.ceil(now + ask.notBefore)) end
    if record.failures > ask.outOf - ask.successes then open(ask.backoff, 'probe') end
  end
  return save(1)
end
`
  }
).withReturnType<Reply>()

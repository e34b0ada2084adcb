/**
 * Kills, terminates and starts the agent service of `examples/host` at random moments, and counts the lost events.
 *
 * `killed` sends events to one life after the other, each of which is killed by SIGKILL, also while it starts. The
 * webhook that takes the answers is up or down at random. A last life answers what is left. `terminated` sends SIGTERM
 * into 20 runs with a backlog. `started` starts pairs of processes at the same instant.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { Effect, Random } from "effect"
import type { Scope } from "effect"
import * as Programs from "../programs.ts"
import * as Server from "../services/Server.ts"

const serviceFile = Programs.bundled(new URL("../../examples/host/service.ts", import.meta.url))
const instanceFile = Programs.bundled(new URL("instance.ts", import.meta.url))

// -----------------------------------------------------------------------------
// Processes
// -----------------------------------------------------------------------------

interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A process and its lines, killed with its scope. */
const run = (command: string, args: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] })
      const lines: Array<string> = []
      const listeners = new Set<() => void>()
      const ended = new Promise<End>((resolve) =>
        child.once("close", (code, signal) => resolve({ code, signal }))
      )
      child.stdin.on("error", () => {})
      createInterface({ input: child.stdout }).on("line", (line) => {
        lines.push(line)
        for (const listener of listeners) listener()
      })
      /** Ends when `isDone` holds for the lines so far, or when the process ends. */
      const until = (isDone: (lines: ReadonlyArray<string>) => boolean): Promise<void> =>
        new Promise((resolve) => {
          const look = () => {
            if (!isDone(lines)) return
            listeners.delete(look)
            resolve()
          }
          listeners.add(look)
          void ended.then(() => resolve())
          look()
        })
      /** The rest of the first line that begins so; `undefined` when the process ends without it. */
      const line = async (start: string): Promise<string | undefined> => {
        const find = () => lines.find((line) => line.startsWith(start))
        await until(() => find() !== undefined)
        return find()?.slice(start.length).trim()
      }
      return { child, lines, ended, line, until }
    }),
    ({ child, ended }) =>
      Effect.promise(() => {
        child.kill("SIGKILL")
        return ended
      })
  )

const node = (...args: ReadonlyArray<string>) => run(process.execPath, args)

interface ServiceOptions {
  readonly wait?: number
  readonly thinking?: number
  /** A command that runs Node, for example in a PID namespace. */
  readonly within?: ReadonlyArray<string>
}

const service = (folder: string, url: string, { within = [], ...options }: ServiceOptions = {}) => {
  const json = JSON.stringify({ wait: 0, ...options })
  const [command = process.execPath, ...args] = [...within, process.execPath]
  return run(command, [...args, serviceFile, folder, url, json])
}

type Process = Effect.Success<ReturnType<typeof service>>

// -----------------------------------------------------------------------------
// Events and answers
// -----------------------------------------------------------------------------

/** The webhook, with the ids of the answered events. */
const webhook = Effect.acquireRelease(
  Effect.promise(async () => {
    const state = { isDown: false, answers: new Map<string, number>() }
    const server = createServer((request, response) => {
      const id = String(request.headers["event-id"]).replace("answer-", "")
      if (!state.isDown) state.answers.set(id, (state.answers.get(id) ?? 0) + 1)
      request.resume()
      response.writeHead(state.isDown ? 503 : 200).end()
    }).listen(0, "127.0.0.1")
    await once(server, "listening")
    const address = server.address()
    const port = typeof address === "object" ? address?.port : undefined
    return { state, server, url: `http://127.0.0.1:${port}` }
  }),
  ({ server }) =>
    Effect.sync(() => {
      server.closeAllConnections()
      server.close()
    })
)

/** Sends an event. True when the service has accepted it. */
const send = async (port: string, id: string): Promise<boolean> => {
  try {
    const body = JSON.stringify({ id, text: "How many pieces are in stock?" })
    const response = await fetch(`http://127.0.0.1:${port}/events`, { method: "POST", body })
    await response.arrayBuffer()
    return response.status === 202
  } catch {
    // The service ended. The event may be stored or not.
    return false
  }
}

/** Sends events until the service has ended, at most `count`. Returns those that were accepted. */
const sendAll = async (port: string, name: string, count: number): Promise<ReadonlyArray<string>> => {
  const accepted: Array<string> = []
  for (let n = 0; n < count; n++) {
    const id = `${name}-${n}`
    if (!(await send(port, id))) break
    accepted.push(id)
  }
  return accepted
}

/** Waits until all events are answered, or none was for a minute. Returns those that are not. */
const unanswered = (accepted: ReadonlyArray<string>, answers: ReadonlyMap<string, number>) =>
  Effect.gen(function* () {
    const open = () => accepted.filter((id) => !answers.has(id))
    let quiet = 0
    for (let before = answers.size; quiet < 600 && open().length > 0; before = answers.size) {
      yield* Effect.sleep("100 millis")
      quiet = answers.size === before ? quiet + 1 : 0
    }
    return open()
  })

const continued = ({ lines }: Process): number =>
  lines.filter((line) => line.includes(" continues with ")).length

const between = (min: number, max: number) => Random.nextIntBetween(min, max, { halfOpen: false })

// -----------------------------------------------------------------------------
// Rounds
// -----------------------------------------------------------------------------

interface Killed {
  readonly kills: number
  /** Kills before the service had started. */
  readonly early: number
  readonly accepted: number
  /** Runs that went on with their transcript. */
  readonly continued: number
  /** Answers that came again. */
  readonly repeated: number
  readonly lost: ReadonlyArray<string>
}

/** Kills this number of lives on one folder. */
export const killed = (kills: number): Effect.Effect<Killed, never, Scope.Scope> =>
  Effect.gen(function* () {
    const folder = yield* Server.folder
    const { state, url } = yield* webhook
    const accepted: Array<string> = []
    let early = 0
    let runs = 0
    for (let life = 0; life < kills; life++) {
      state.isDown = yield* Random.nextBoolean
      yield* Effect.scoped(
        Effect.gen(function* () {
          const one = yield* service(folder, url)
          // Every fifth life dies while it starts.
          const isEarly = life % 5 === 4
          if (isEarly) yield* Effect.sleep(yield* between(50, 1_500))
          const port = isEarly ? undefined : yield* Effect.promise(() => one.line("listening "))
          const sending = port === undefined ? Promise.resolve([]) : sendAll(port, `life${life}`, 30)
          if (port === undefined) early++
          else yield* Effect.sleep(yield* between(20, 1_200))
          one.child.kill("SIGKILL")
          accepted.push(...(yield* Effect.promise(() => sending)))
          yield* Effect.promise(() => one.ended)
          runs += continued(one)
        })
      )
    }
    state.isDown = false
    const last = yield* service(folder, url)
    const lost = yield* unanswered(accepted, state.answers)
    last.child.kill("SIGTERM")
    yield* Effect.promise(() => last.ended)
    const repeated = [...state.answers.values()].reduce((sum, count) => sum + count - 1, 0)
    return { kills, early, accepted: accepted.length, continued: runs + continued(last), repeated, lost }
  })

interface Terminated {
  readonly end: End
  /** Milliseconds from SIGTERM to the end. */
  readonly took: number
  readonly accepted: number
  /** Answers before SIGTERM. */
  readonly before: number
  readonly continued: number
  readonly lost: ReadonlyArray<string>
}

/** Sends SIGTERM into 20 runs, with a backlog of events and of answers. */
export const terminated = (options: ServiceOptions = {}): Effect.Effect<Terminated, never, Scope.Scope> =>
  Effect.gen(function* () {
    const folder = yield* Server.folder
    const { state, url } = yield* webhook
    state.isDown = true
    // Long enough that no run ends before the last of the 20 has begun.
    const one = yield* service(folder, url, { thinking: 5_000, ...options })
    const port = yield* Effect.promise(() => one.line("listening "))
    const accepted = yield* Effect.promise(() => sendAll(port ?? "", "event", 40))
    // Each run has had a first answer of its model and the result of a tool, and asks again.
    yield* Effect.promise(() =>
      one.until((lines) => lines.filter((line) => line.endsWith("saved 3 messages")).length >= 20)
    )
    const before = state.answers.size
    const started = performance.now()
    terminate(one.child.pid ?? 0, options.within !== undefined)
    const end = yield* Effect.promise(() => one.ended)
    const took = performance.now() - started
    state.isDown = false
    const next = yield* service(folder, url)
    const lost = yield* unanswered(accepted, state.answers)
    return { end, took, accepted: accepted.length, before, continued: continued(next), lost }
  })

/** SIGTERM for a process, or for the first one in the namespace that `unshare` made. */
const terminate = (pid: number, isWithin: boolean): void => {
  const children = isWithin ? readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim() : ""
  process.kill(children === "" ? pid : Number(children.split(" ")[0]), "SIGTERM")
}

interface Started {
  readonly pairs: number
  /** Pairs with none or two running. */
  readonly wrong: number
}

/** Starts pairs of processes at the same instant. */
export const started = (pairs: number): Effect.Effect<Started, never, Scope.Scope> =>
  Effect.gen(function* () {
    const folder = yield* Server.folder
    let wrong = 0
    for (let n = 0; n < pairs; n++) {
      yield* Effect.scoped(
        Effect.gen(function* () {
          const two = [
            yield* node(instanceFile, join(folder, "agent.lock")),
            yield* node(instanceFile, join(folder, "agent.lock"))
          ]
          yield* Effect.promise(() => Promise.all(two.map((one) => one.line("waiting"))))
          for (const { child } of two) child.stdin.write("go\n")
          // Each holds the lock, or ends.
          yield* Effect.promise(() => Promise.all(two.map((one) => one.line("held"))))
          const winners = two.filter(({ lines }) => lines.includes("held"))
          const losers = two.filter(({ lines }) => !lines.includes("held"))
          for (const { child } of winners) child.kill("SIGTERM")
          const ends = yield* Effect.promise(() =>
            Promise.all([...winners, ...losers].map(({ ended }) => ended))
          )
          if (winners.length !== 1 || ends[0]?.code !== 0 || ends[1]?.code !== 75) {
            wrong++
            console.error(`pair ${n}: ${winners.length} held the lock, ends ${JSON.stringify(ends)}`)
          }
        })
      )
    }
    return { pairs, wrong }
  })

// -----------------------------------------------------------------------------
// All of it
// -----------------------------------------------------------------------------

export interface Options {
  readonly kills: number
  readonly pairs: number
  readonly seed: string
}

/** Runs everything, and gives the lines to print. */
export const runAll = ({ kills, pairs, seed }: Options) =>
  Effect.gen(function* () {
    const kill = yield* Effect.scoped(killed(kills))
    const term = yield* Effect.scoped(terminated({ wait: 5_000 }))
    const start = yield* Effect.scoped(started(pairs))
    const isRight =
      kill.lost.length + term.lost.length + start.wrong === 0 && term.end.code === 0 && term.took < 25_000
    const lines = [
      `${kill.kills} lives killed by SIGKILL, ${kill.early} of them while they started`,
      `${kill.accepted} events accepted, lost: ${kill.lost.length}; ${kill.continued} runs went on with their transcript, ${kill.repeated} answers came again`,
      `SIGTERM with ${term.accepted} events, none answered: exit code ${term.end.code} after ${(term.took / 1_000).toFixed(1)} s, 5 s of it the wait; ${term.continued} transcripts kept, lost: ${term.lost.length}`,
      `${start.pairs} pairs of starts at the same instant, with other than one running: ${start.wrong}`
    ]
    return { isRight, lines, kill, term, start }
  }).pipe(Random.withSeed(seed))

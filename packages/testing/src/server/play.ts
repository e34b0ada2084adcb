/** Plays the replies of a plan on a connection. */
import { Effect } from "effect"
import type { Schema } from "effect"
import type { Reply, Respond, Speech } from "../plan/FaultPlan.ts"
import type { Connection } from "./Connection.ts"
import type { Accepted, Context, Refusal, Wire } from "./Wire.ts"

export const reply = (
  connection: Connection,
  wire: Wire,
  request: Accepted,
  reply: Reply,
  context: Context
): Effect.Effect<void> => {
  switch (reply.type) {
    case "nothing":
      return reply.reset ? connection.destroy : Effect.never
    case "respond":
      return respond(connection, wire, reply, context)
    case "speech":
      return request.streaming
        ? stream(connection, wire, request, reply, context)
        : whole(connection, wire, request, reply, context)
  }
}

export const refusal = (connection: Connection, wire: Wire, refusal: Refusal, context: Context) =>
  send(connection, refusal.status, wire.headers(context), refusal.body(context.requestId))

/** Answers with an error of the server itself, in no API's format. Destroys a response that has already started. */
export const failure = (connection: Connection, status: number, type: string, message: string) =>
  connection.untouched()
    ? send(connection, status, {}, { type: "error", error: { type, message } })
    : connection.destroy

const respond = (connection: Connection, wire: Wire, reply: Respond, context: Context) => {
  const stated = lowerCased(reply.headers)
  const body = reply.body ?? wire.error(reply.status, reply.error, context.requestId, stated)
  // An HTML page comes from the edge network and has none of the API's headers.
  const headers = typeof body === "string" ? {} : wire.headers(context)
  return send(connection, reply.status, { ...headers, ...stated }, body)
}

const send = (
  connection: Connection,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: Schema.Json
): Effect.Effect<void> => {
  const text = typeof body === "string" ? body : JSON.stringify(body)
  const type = typeof body !== "string" ? json : text.trimStart().startsWith("<") ? "text/html" : "text/plain"
  return Effect.gen(function* () {
    yield* connection.start(status, { "content-type": type, ...headers })
    yield* connection.write(text)
    yield* connection.end
  })
}

const stream = (connection: Connection, wire: Wire, request: Accepted, speech: Speech, context: Context) =>
  Effect.gen(function* () {
    const frames = request.stream(speech, context)
    const { end } = speech
    yield* connection.start(200, {
      ...wire.headers(context),
      ...lowerCased(speech.headers),
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache"
    })
    yield* connection.write(frames.head)
    for (const delta of frames.deltas) {
      if (speech.delay > 0) yield* Effect.sleep(speech.delay)
      yield* connection.write(delta)
    }
    switch (end.type) {
      case "finish":
      case "error":
        yield* connection.write(frames.tail)
        return yield* connection.end
      case "cut":
        return yield* connection.end
      case "reset":
        return yield* connection.destroy
      case "stall":
        if (end.keepAlive === undefined) return yield* Effect.never
        return yield* Effect.forever(
          Effect.andThen(Effect.sleep(end.keepAlive), connection.write(wire.keepAlive))
        )
    }
  })

/** Sends an answer without streaming. An answer that breaks off announces its full length and stops at half of it. */
const whole = (connection: Connection, wire: Wire, request: Accepted, speech: Speech, context: Context) =>
  Effect.gen(function* () {
    if (speech.delay > 0) yield* Effect.sleep(speech.delay * speech.deltas.length)
    const text = JSON.stringify(request.answer(speech, context))
    const length = String(Buffer.byteLength(text))
    yield* connection.start(200, {
      ...wire.headers(context),
      ...lowerCased(speech.headers),
      "content-type": json,
      "content-length": length
    })
    if (speech.end.type === "finish") {
      yield* connection.write(text)
      return yield* connection.end
    }
    yield* connection.write(text.slice(0, Math.floor(text.length / 2)))
    return yield* speech.end.type === "stall" ? Effect.never : connection.destroy
  })

const json = "application/json"

/** Lower-cases the names of headers, for comparison. */
export const lowerCased = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

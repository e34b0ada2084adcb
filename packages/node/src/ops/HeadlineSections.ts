/**
 * The sections of `/api/state` that `Headline` knows, as schemas. A section of another shape reads as `undefined`.
 */
import { Option, Schema } from "effect"

const time = Schema.optional(Schema.NullOr(Schema.Finite))
const word = Schema.optional(Schema.NullOr(Schema.String))

const Targets = Schema.Array(
  Schema.Struct({
    id: Schema.String,
    provider: Schema.String,
    model: Schema.String,
    key: Schema.optional(Schema.String),
    state: Schema.Literals(["ready", "cooling", "open", "dead"]),
    reason: word,
    message: word,
    advice: word,
    needsPerson: Schema.optional(Schema.Boolean),
    health: word,
    until: time,
    nextTry: time,
    cooldowns: Schema.optional(Schema.Array(Schema.Struct({ scope: Schema.String }))),
    circuits: Schema.optional(Schema.Array(Schema.Struct({ circuit: Schema.String, phase: Schema.String })))
  })
)
export type Target = (typeof Targets.Type)[number]

/** Routes of a gateway. Each has one chain for each format. */
const Routes = Schema.Array(
  Schema.Struct({
    route: Schema.String,
    wire: Schema.String,
    /** Ids of its targets that may be asked. */
    ready: Schema.Array(Schema.String),
    until: time
  })
)
export type Route = (typeof Routes.Type)[number]

export const Activity = Schema.Struct({
  histories: Schema.optional(
    Schema.Array(
      Schema.Struct({
        target: Schema.String,
        failingSince: time,
        lastFailure: Schema.optional(
          Schema.Struct({ reason: Schema.String, status: Schema.optional(Schema.Finite) })
        )
      })
    )
  ),
  recent: Schema.Array(
    Schema.Struct({ outcome: Schema.String, endedAt: time, message: Schema.optional(Schema.String) })
  ),
  running: Schema.Array(
    Schema.Struct({
      steps: Schema.Array(
        Schema.Struct({
          kind: Schema.String,
          state: Schema.String,
          text: Schema.optional(Schema.String),
          by: word,
          reason: word,
          until: time
        })
      )
    })
  ),
  circuits: Schema.Array(
    Schema.Struct({ circuit: Schema.String, phase: Schema.String, since: time, until: time })
  ),
  notices: Schema.Array(Schema.Struct({ at: Schema.Finite, tag: word, run: word, text: Schema.String }))
})
export type Activity = typeof Activity.Type

const Circuits = Schema.Array(
  Schema.Struct({ circuit: Schema.String, phase: Schema.String, until: time, lastFailure: word })
)

export const Tasks = Schema.Array(
  Schema.Struct({
    id: Schema.String,
    state: Schema.String,
    effect: Schema.optional(Schema.Struct({ tool: Schema.String }))
  })
)

const Outbox = Schema.Struct({ backlog: Schema.Finite, oldestAt: time })
const Unread = Schema.Struct({ error: Schema.String })
const Letters = Schema.Struct({ total: Schema.Finite })
export const Budget = Schema.Struct({ paid: Schema.Finite, reserve: Schema.Finite })

const read = <A>(schema: Schema.Decoder<A>): ((value: unknown) => A | undefined) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (value) => Option.getOrUndefined(decode(value))
}

export const reader = {
  targets: read(Targets),
  routes: read(Routes),
  activity: read(Activity),
  circuits: read(Circuits),
  tasks: read(Tasks),
  outbox: read(Outbox),
  unread: read(Unread),
  letters: read(Letters),
  budget: read(Budget)
}

/**
 * One call of the gateway, as its attempts see it: the caller's request as it came, and what the gateway learns of the
 * answers beside their parts. The attempts find it in their context (`ClientOptions`).
 */
import { ClientOptions } from "@outlast/agent/failover"
import type { Fiber, Tracer } from "effect"
import type { Fields } from "../json/Json.ts"
import * as Splice from "../json/Splice.ts"
import type { Asked, Wire } from "../wire/Wire.ts"

/** The response of a vendor, before its body. */
export interface Head {
  readonly status: number
  readonly headers: Headers
}

/** An attempt, as its answer headers name it. */
export interface Sent {
  readonly provider: string
  readonly model: string
}

export class WireCall {
  readonly wire: Wire
  /** The JSON of the request, as it goes on. */
  readonly text: string
  readonly body: Fields
  readonly asked: Asked
  /** Headers of the request that go on. */
  readonly headers: Readonly<Record<string, string>>
  /** The caller's own span. */
  readonly parent: Tracer.ExternalSpan | undefined
  /** The number of attempts so far. */
  attempts = 0
  /** The last attempt. */
  sent: Sent | undefined
  /** The last response. */
  head: Head | undefined
  /** Kind of the failure that made the call leave another model. */
  switched: string | undefined
  /** The body of the whole answer. */
  whole: string | undefined
  /** The last error of a vendor in the caller's own wire. */
  refusal: { readonly status: number; readonly body: string } | undefined
  #failed: string | undefined

  constructor(
    wire: Wire,
    { body, headers, parent, text }: Pick<WireCall, "body" | "headers" | "parent" | "text">
  ) {
    this.wire = wire
    const edits = wire.withoutCuts(body)
    this.text = edits.size === 0 ? text : Splice.changed(text, edits)
    this.body = body
    this.asked = wire.asked(body)
    this.headers = headers
    this.parent = parent
  }

  /** An attempt begins. */
  begin(sent: Sent): void {
    const before = this.sent
    const isOther = before !== undefined && (before.provider !== sent.provider || before.model !== sent.model)
    if (isOther) this.switched = this.#failed
    this.attempts++
    this.sent = sent
    this.head = undefined
  }

  /** The attempt failed, for a reason of this kind. */
  failed(kind: string, refusal: WireCall["refusal"]): void {
    this.#failed = kind
    this.refusal = refusal
  }
}

/** The call that the attempt of a fiber belongs to. */
export const currentOf = (fiber: Fiber.Fiber<unknown, unknown>): WireCall => {
  const call = fiber.getRef(ClientOptions.ClientOptions)
  if (call instanceof WireCall) return call
  throw new Error("A target of the gateway was asked outside of a call of the gateway.")
}

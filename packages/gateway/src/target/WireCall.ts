/**
 * One call of the gateway, as its attempts see it: the caller's request as it came, and what the gateway learns of the
 * answers beside their parts. The attempts find it in their context (`ClientOptions`).
 */
import { ClientOptions } from "@outlast/agent/failover"
import type { Priority } from "@outlast/agent/limiter"
import type { Duration, Fiber, Tracer } from "effect"
import { fields, parse, textsIn } from "../json/Json.ts"
import type { Fields } from "../json/Json.ts"
import * as Splice from "../json/Splice.ts"
import type { Asked, Source, Wire } from "../wire/Wire.ts"

/** What a caller may say of its call, in headers. */
export interface Narrowed {
  /** From `x-outlast-timeout`: no attempt begins later. */
  readonly timeout: Duration.Duration | undefined
  /** From `x-outlast-max-cost`, in US dollars. */
  readonly maxCost: number | undefined
  /** From `x-outlast-priority`. */
  readonly priority: Priority.Priority | undefined
}

/** An error of a vendor, as it came. */
export interface Refusal {
  readonly status: number
  readonly body: string
}

export class WireCall {
  readonly wire: Wire
  /** The JSON of the request, as it goes on. */
  readonly text: string
  readonly asked: Asked
  /** Headers of the request that go on. */
  readonly headers: Readonly<Record<string, string>>
  /** The caller's own span. */
  readonly parent: Tracer.ExternalSpan | undefined
  /** Arguments of tool calls are shown as they come. */
  readonly flows: boolean
  /** What the caller allows less than the route. */
  readonly narrowed: Narrowed
  /** The number of attempts so far. */
  attempts = 0
  /** Attempts that have failed, the last one last. */
  readonly #failed: Array<{
    readonly source: Source
    readonly kind: string
    readonly refusal: Refusal | undefined
  }> = []

  constructor(
    wire: Wire,
    {
      body,
      flows,
      headers,
      narrowed,
      parent,
      text
    }: Pick<WireCall, "flows" | "headers" | "narrowed" | "parent" | "text"> & { readonly body: Fields }
  ) {
    this.wire = wire
    const edits = wire.withoutCuts(body)
    this.text = edits.size === 0 ? text : Splice.changed(text, edits)
    this.asked = wire.asked(body)
    this.headers = headers
    this.parent = parent
    this.flows = flows
    this.narrowed = narrowed
  }

  /**
   * All texts of the conversation: no error may repeat them. Parsed anew, because few calls fail, and a call that kept its
   * parsed body would hold its request twice.
   */
  get prompt(): ReadonlyArray<string> {
    const { input, instructions, messages, system } = fields(parse(this.text))
    return textsIn([messages, input, system, instructions])
  }

  /** The attempt failed, for a reason of this kind. */
  failed(source: Source, kind: string, refusal: Refusal | undefined): void {
    this.#failed.push({ source, kind, refusal })
  }

  /** The error of the last attempt that failed, if the caller is to see it as the vendor wrote it. */
  get refusal(): (Refusal & { readonly source: Source }) | undefined {
    const last = this.#failed.at(-1)
    return last?.refusal === undefined ? undefined : { ...last.refusal, source: last.source }
  }

  /** Kind of the failure that made the call leave another model for that of `source`. */
  switchedTo({ model, provider }: Source): string | undefined {
    return this.#failed.findLast(({ source }) => source.model !== model || source.provider !== provider)?.kind
  }
}

/** The call that the attempt of a fiber belongs to. */
export const currentOf = (fiber: Fiber.Fiber<unknown, unknown>): WireCall => {
  const call = fiber.getRef(ClientOptions.ClientOptions)
  if (call instanceof WireCall) return call
  throw new Error("A target of the gateway was asked outside of a call of the gateway.")
}

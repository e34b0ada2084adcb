/**
 * Splits a conversation into units that stay together: a single message, or a message with tool calls and the results
 * after it.
 *
 * Keeping or dropping whole units never separates a call from its result. A conversation with broken pairs is
 * repaired first, as `Pairs` does it for a provider. Only calls in the last unit may be open: their tools still have
 * to run, or await approval.
 */
import type { Prompt } from "effect/ai"
import * as Dialects from "../conversation/Dialect.ts"
import * as Pairs from "../conversation/Pairs.ts"
import type { Destination } from "../conversation/Parts.ts"
import { isLocalCall } from "../conversation/Parts.ts"
import * as Wordings from "../conversation/Wording.ts"

export interface Unit {
  /** Index of the first message in the conversation. */
  readonly at: number
  /** At least one message. */
  readonly messages: ReadonlyArray<Prompt.Message>
}

type Messages = ReadonlyArray<Prompt.Message>

/** Splits a conversation into units. Repairs broken pairs first. */
export const of = (messages: Messages): ReadonlyArray<Unit> => {
  const units = split(messages)
  const last = units.at(-1)
  if (last === undefined || units.every((unit) => isWhole(unit, unit === last))) return units
  // A last unit with open calls is left alone. With any other fault it is repaired, too.
  return isWhole(last, true)
    ? split([...Pairs.fit(messages.slice(0, last.at), anywhere), ...last.messages])
    : split(Pairs.fit(messages, anywhere))
}

const split = (messages: Messages): ReadonlyArray<Unit> => {
  const units: Array<Unit> = []
  for (let at = 0; at < messages.length;) {
    let end = at + 1
    if (messages[at]?.role === "assistant") while (messages[end]?.role === "tool") end++
    units.push({ at, messages: messages.slice(at, end) })
    at = end
  }
  return units
}

/** True when each result has its call and each call its result. With `mayBeOpen`, calls may lack results. */
const isWhole = ({ messages }: Unit, mayBeOpen: boolean): boolean => {
  const [first] = messages
  if (first?.role === "system" || first?.role === "user") return true
  const open = first?.role === "assistant" ? first.content.filter(isLocalCall).map(({ id }) => id) : []
  for (const message of messages) {
    if (message.role !== "tool") continue
    for (const part of message.content) {
      if (part.type !== "tool-result") continue
      const call = open.indexOf(part.id)
      if (call < 0) return false
      open.splice(call, 1)
    }
  }
  return mayBeOpen || open.length === 0
}

/** A destination that accepts every id and name, because only pairs are repaired here. */
const anywhere: Destination = {
  ref: { id: "", provider: "", model: "", endpoint: "", key: "" },
  dialect: { ...Dialects.defaults, callId: /^/, toolName: /^/, uniqueCallIds: false },
  wording: Wordings.defaults,
  names: undefined
}

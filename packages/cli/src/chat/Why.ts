/** What `/why` remembers: the last failure or switch of a call, and what the call did next. Pure, of bounded size. */
import type { EventLine, FailoverEvent } from "@outlast/agent"

/** The last trouble of a call. */
export interface Story {
  readonly call: number
  /** Id of the target that had the trouble. `undefined`: the call gave up before it asked one. */
  readonly target: string | undefined
  readonly happened: string
  /** The failure of the attempt, when there was one. */
  readonly failed: FailoverEvent.AttemptFailed | undefined
  /** Lines of the call's later events, at most {@link maxNext}. */
  readonly next: ReadonlyArray<string>
}

/** The heartbeats of a wait that takes hours would fill the screen. */
const maxNext = 10

const begun = (event: EventLine.Event): Omit<Story, "call" | "next"> | undefined => {
  switch (event._tag) {
    case "AttemptFailed":
      return { target: event.target.id, happened: `${event.message}.`, failed: event }
    case "AttemptOvertaken":
      if (!event.late) return undefined
      return {
        target: event.target.id,
        happened: `Its first token was late, and ${event.by.id} was faster.`,
        failed: undefined
      }
    case "ModelChanged":
      return { target: event.from.id, happened: event.message, failed: undefined }
    case "CallGaveUp":
      return { target: undefined, happened: event.message, failed: undefined }
    default:
      return undefined
  }
}

/** Events that end a story of their call, and are a story of their own otherwise. */
const endings: ReadonlySet<string> = new Set(["ModelChanged", "CallGaveUp"])

/** Follows the events. `line` is the line of the event, where it has one. */
export const heard = (
  story: Story | undefined,
  event: EventLine.Event,
  line: string | undefined
): Story | undefined => {
  if (!("call" in event)) return story
  const isNext = story?.call === event.call
  const next = isNext && endings.has(event._tag) ? undefined : begun(event)
  if (next !== undefined) return { ...next, call: event.call, next: [] }
  // A message of several lines says the same of each target.
  const told = event._tag === "CallGaveUp" ? `✗ ${event.message.split("\n", 1)[0]}` : line
  return isNext && told !== undefined
    ? { ...story, next: [...story.next, told.trim()].slice(-maxNext) }
    : story
}

// One stream of the server's events, resumed by id. Used by the shared worker, or by the tab that leads.
const RETRY_MS = 2_000;
const MOST_RETRY_MS = 30_000;

export class Stream {
  /**
   * tell(message): receives {type, data}, and {type: "live", since}: null, or since when there is no stream.
   * after: the id of the change after which changes are wanted.
   */
  constructor(tell, after) {
    this.tell = tell;
    this.source = null;
    this.lastId = after;
    this.since = null;
    this.polls = null;
    this.wait = RETRY_MS;
  }

  /** Opens the stream, with polls or without them. */
  want(polls) {
    if (this.polls === polls && this.source !== null) return;
    this.polls = polls;
    this.open();
  }

  close() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.again);
  }

  open() {
    this.close();
    const query = new URLSearchParams({ types: this.polls ? "change,polls,health" : "change,health" });
    query.set("last_event_id", this.lastId);
    const source = new EventSource(`/api/v1/events?${query}`);
    this.source = source;
    source.onopen = () => {
      this.since = null;
      this.wait = RETRY_MS;
      this.tell({ type: "live", since: null });
    };
    source.onerror = () => {
      if (this.source !== source) return;
      this.since ??= Date.now();
      this.tell({ type: "live", since: this.since });
      // The browser itself tries again, but not after a refusal; then it is up to us, ever more slowly.
      this.close();
      this.again = setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(2 * this.wait, MOST_RETRY_MS);
    };
    for (const type of ["change", "polls", "health"]) {
      source.addEventListener(type, (event) => {
        if (event.lastEventId) this.lastId = Number(event.lastEventId);
        this.tell({ type, data: JSON.parse(event.data) });
      });
    }
  }
}

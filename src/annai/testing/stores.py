"""Does a store keep the contract of annai.stores.base? One suite, for annai's own stores and for those of others.

In a test module: `from annai.testing.stores import *`, and a fixture `open_store` that returns a function. Called, it
opens the store; called again, it opens the same index, which several threads may do at once. If the index outlives the
object that opened it, add the fixture `open_durable`, of the same kind; without it the tests that need it are skipped.

The parts of the suite are beside it: what the tests write and ask (`store_samples`), and `store_documents`,
`store_searches`, `store_collections`, `store_requests`; that all stores answer alike is `store_agreement`.
"""

from annai.testing.store_agreement import *
from annai.testing.store_collections import *
from annai.testing.store_documents import *
from annai.testing.store_requests import *
from annai.testing.store_samples import *
from annai.testing.store_searches import *
